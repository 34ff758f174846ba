/* SPDX-License-Identifier: BSD-3-Clause */
/* What the releases of DOCA say differently: tables, and nothing else. */
#include <stddef.h>
#include <string.h>

#include "doca.h"

/* --- payloads ---------------------------------------------------------------------------------- */

#define U32(called, of)                                                                            \
        {                                                                                          \
                .name = (called), .member = offsetof(struct doca_msg, of), .len = 4                \
        }
#define U64(called, of)                                                                            \
        {                                                                                          \
                .name = (called), .member = offsetof(struct doca_msg, of), .len = 8                \
        }
#define BLOB(called)                                                                               \
        {                                                                                          \
                .name = (called), .member = offsetof(struct doca_msg, data)                        \
        }
#define WORD(called, n, of, words)                                                                 \
        {                                                                                          \
                .name = (called), .member = offsetof(struct doca_msg, of), .len = (n),             \
                .say = (words)                                                                     \
        }

/* clang-format off */
static const struct doca_item error_items[] = {
        WORD("result", 4, result, doca_error_name),
        { .name = "message", .member = offsetof(struct doca_msg, data), .text = true },
        { 0 },
};
static const struct doca_item query_items[] = {
        U64("total_size", total_size), U32("block_size", block_size), { 0 },
};
static const struct doca_item init_items[] = { /* 3.2 */
        U32("transaction_count", transactions), U32("core_count", cores), BLOB("mmap_export"), { 0 },
};
static const struct doca_item init_items_3_1[] = {
        U32("task_count", transactions), U32("core_count", cores), BLOB("mmap_export"), { 0 },
};
static const struct doca_item init_items_3_0[] = {
        U32("task_count", transactions), U32("batch_size", batch), U32("core_count", cores), BLOB("mmap_export"), { 0 },
};
static const struct doca_item init_items_2_10[] = {
        U32("buffer_count", transactions), U32("buffer_size", buffer_size), U32("batch_size", batch), BLOB("mmap_export"), { 0 },
};
static const struct doca_item create_items[] = {
        U32("context_idx", context), WORD("role", 4, role, doca_role_name), BLOB("connection_details"), { 0 },
};
static const struct doca_item create_items_2_10[] = {
        WORD("role", 1, role, doca_role_name), BLOB("connection_details"), { 0 },
};

/* --- types of message -------------------------------------------------------------------------- */

#define S PARTY_HOST
#define T PARTY_CONTROLLER

#define SHAPES_3(init)                                                                             \
        { "error_response", DOCA_ERROR_RSP, T, .items = error_items },                             \
        { "query_storage_request", DOCA_QUERY, S, DOCA_QUERY_RSP, NULL },                          \
        { "query_storage_response", DOCA_QUERY_RSP, T, .items = query_items },                     \
        { "init_storage_request", DOCA_INIT, S, DOCA_INIT_RSP, (init) },                           \
        { "init_storage_response", DOCA_INIT_RSP, T, .items = NULL },                              \
        { "create_rdma_connection_request", DOCA_CREATE, S, DOCA_CREATE_RSP, create_items },       \
        { "create_rdma_connection_response", DOCA_CREATE_RSP, T, .items = create_items },          \
        { "start_storage_request", DOCA_START, S, DOCA_START_RSP, NULL },                          \
        { "start_storage_response", DOCA_START_RSP, T, .items = NULL },                            \
        { "stop_storage_request", DOCA_STOP, S, DOCA_STOP_RSP, NULL },                             \
        { "stop_storage_response", DOCA_STOP_RSP, T, .items = NULL },                              \
        { "shutdown_request", DOCA_SHUTDOWN, S, DOCA_SHUTDOWN_RSP, NULL },                         \
        { "shutdown_response", DOCA_SHUTDOWN_RSP, T, .items = NULL },

static const struct doca_shape shapes_3_2[] = { SHAPES_3(init_items) };
static const struct doca_shape shapes_3_1[] = { SHAPES_3(init_items_3_1) };
static const struct doca_shape shapes_3_0[] = { SHAPES_3(init_items_3_0) };
static const struct doca_shape shapes_2_10[] = {
        { "response", DOCA_RESPONSE, T, .items = error_items },
        { "configure_data_path", DOCA_INIT, S, DOCA_RESPONSE, init_items_2_10 },
        { "create_rdma_connection_request", DOCA_CREATE, S, DOCA_CREATE_RSP, create_items_2_10 },
        { "create_rdma_connection_response", DOCA_CREATE_RSP, T, .items = create_items_2_10 },
        { "start_data_path_connections", DOCA_CONNECT, S, DOCA_RESPONSE, NULL },
        { "start_storage", DOCA_START, S, DOCA_RESPONSE, NULL },
        { "destroy_objects", DOCA_SHUTDOWN, S, DOCA_RESPONSE, NULL },
};

static const enum doca_kind order_3[] = { DOCA_QUERY, DOCA_INIT, DOCA_CREATE, DOCA_START, DOCA_STOP, DOCA_SHUTDOWN, DOCA_NOTHING };
static const enum doca_kind order_2_10[] = { DOCA_INIT, DOCA_CREATE, DOCA_CONNECT, DOCA_START, DOCA_SHUTDOWN, DOCA_NOTHING };

#define FRAME_3 { .size_len = 4, .uncounted = 4, .type_at = 4, .type_len = 4, .message_at = 8, .correlation_at = 12, .header = 16 }
#define FRAME_2_10 { .size_len = 2, .type_at = 2, .type_len = 2, .correlation_at = 4, .header = 8 }

/* --- I/O messages ------------------------------------------------------------------------------ */

#define IO(called, where, n, of) { .name = (called), .member = offsetof(struct doca_io, of), .at = (where), .len = (n) }
#define IO_HEAD                                                                                    \
        { .name = "type", .member = offsetof(struct doca_io, type), .len = 4, .say = doca_io_name }
#define IO_CORRELATION IO("correlation_id", 4, 4, correlation_id)
#define IO_MIDDLE                                                                                  \
        IO("user_data", 8, 8, user_data),                                                          \
        { .name = "result", .member = offsetof(struct doca_io, result), .at = 16, .len = 4, .say = doca_error_name }, \
        IO("io_size", 20, 4, size)

static const struct doca_item io_3_2[] = {
        IO_HEAD, IO_MIDDLE, IO("requester_offset", 24, 8, memory), IO("storage_offset", 32, 8, storage), { 0 },
};
static const struct doca_item io_3_1[] = {
        IO_HEAD, IO_CORRELATION, IO_MIDDLE, IO("requester_offset", 24, 8, memory), IO("storage_offset", 32, 8, storage), { 0 },
};
static const struct doca_item io_3_0[] = {
        IO_HEAD, IO_CORRELATION, IO_MIDDLE, IO("io_address", 24, 8, memory), IO("remote_offset", 32, 4, storage), { 0 },
};
static const struct doca_item io_2_10[] = {
        IO_HEAD, IO_CORRELATION, IO_MIDDLE, IO("io_address", 24, 8, memory), { 0 },
};

#define TYPES(shapes_) .shapes = (shapes_), .types = sizeof(shapes_) / sizeof((shapes_)[0])

static const struct doca_dialect dialects[DOCA_VERSIONS] = {
        [DOCA_2_10] = { .name = "2.10", TYPES(shapes_2_10), .order = order_2_10, .frame = FRAME_2_10, .io = io_2_10,
                        .io_types = 4, .by_address = true, .storage_by_memory = true },
        [DOCA_3_0] = { .version = DOCA_3_0, .name = "3.0", TYPES(shapes_3_0), .order = order_3, .frame = FRAME_3, .io = io_3_0,
                       .io_types = 3, .by_address = true, .has_context = true },
        [DOCA_3_1] = { .version = DOCA_3_1, .name = "3.1", TYPES(shapes_3_1), .order = order_3, .frame = FRAME_3, .io = io_3_1,
                       .io_types = 3, .has_context = true },
        [DOCA_3_2] = { .version = DOCA_3_2, .name = "3.2", TYPES(shapes_3_2), .order = order_3, .frame = FRAME_3, .io = io_3_2,
                       .io_types = 3, .has_context = true },
};
/* clang-format on */

const struct doca_dialect *doca_dialect(enum doca_version v)
{
        return &dialects[v];
}

const struct doca_dialect *doca_dialect_named(const char *name)
{
        for (unsigned i = 0; i < DOCA_VERSIONS; i++)
                if (strcmp(dialects[i].name, name) == 0)
                        return &dialects[i];
        return strcmp(name, "3.3") == 0 ? &dialects[DOCA_3_2] : NULL;
}
