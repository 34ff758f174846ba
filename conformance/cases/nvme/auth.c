/* SPDX-License-Identifier: BSD-3-Clause */
/* NVMe Base 8.3.4 (and 3.3.2.3): in-band authentication, DH-HMAC-CHAP. */
#include <string.h>

#include "conformance/engine/suite.h"
#include "conformance/words/case_auth.h"

enum { ALL_GROUPS = (1 << AUTH_GROUPS) - 1, WITH_DH = ALL_GROUPS & ~1 };

/* --- who has a key */

CASE("fab/auth/one-way", MUST, RULES(FAB_AUTH_CHALLENGE),
     "A host that authenticates itself may enable the controller and use it")
{
        struct queue *q = unproven_queue(t);

        send_auth_message(q, next_message(q));
        receive_auth_message(q);
        authenticate(q);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        identify_ctrl(q);
}

CASE("fab/auth/mutual", MUST, RULES(FAB_AUTH_R2),
     "A controller that is challenged authenticates itself too")
{
        struct queue *q = unproven_queue(t);

        require(t, auth_is_mutual(t), "the subsystem's key is not known (--dhchap-ctrl-secret)");
        authenticate(q);
        expect_works(q);
}

CASE("fab/auth/io-queue", MUST, RULES(FAB_ANSWERED),
     "An I/O queue is authenticated like the admin queue")
{
        struct queue *q = unproven_io_queue(t);

        authenticate(q);
        want(t, finish(q, send_cmd(q, .opc = NVME_FLUSH, .nsid = 1)).status != NVME_AUTH_REQUIRED,
             "Flush is executed", "Authentication Required");
}

CASE("fab/auth/each-hash", MUST, RULES(FAB_AUTH_HASH),
     "Each hash function, offered alone, is either used or refused with the reason for it")
{
        for (uint8_t hash = AUTH_SHA256; hash < AUTH_HASHES; hash++) {
                struct queue *q = unproven_queue(t);
                const struct auth_view *v;

                begin_auth(q, (uint8_t)(1 << hash), 0);
                send_auth_message(q, next_message(q));
                v = receive_auth_message(q);
                if (v->message == AUTH_FAILURE1)
                        want_eq(t, "RCODEEX", v->failure->rcodeex, AUTH_HASH_UNUSABLE);
                else
                        authenticate(q);
                hang_up(q);
        }
}

CASE("fab/auth/each-group", MUST, RULES(FAB_AUTH_GROUP),
     "Each DH group, offered alone, is either used or refused with the reason for it")
{
        for (uint8_t group = AUTH_NO_DH; group <= AUTH_FFDHE3072; group++) {
                struct queue *q = unproven_queue(t);
                const struct auth_view *v;

                begin_auth(q, 0, (uint8_t)(1 << group));
                send_auth_message(q, next_message(q));
                v = receive_auth_message(q);
                if (v->message == AUTH_FAILURE1)
                        want_eq(t, "RCODEEX", v->failure->rcodeex, AUTH_GROUP_UNUSABLE);
                else
                        authenticate(q);
                hang_up(q);
        }
}

/* A transaction that offers these alone; whether the controller has a use for them. */
static bool accepts(struct t *t, uint8_t hashes, uint8_t groups)
{
        struct queue *q = unproven_queue(t);
        bool accepted;

        begin_auth(q, hashes, groups);
        send_auth_message(q, next_message(q));
        accepted = receive_auth_message(q)->message != AUTH_FAILURE1;
        hang_up(q);
        return accepted;
}

CASE("fab/auth/algorithms", SHOULD, RULES(AUTH_MANDATORY),
     "SHA-256, and the DH groups NULL, 2,048 and 3,072 bits, can be used for authentication")
{
        want(t, accepts(t, 1 << AUTH_SHA256, 0), "SHA-256", "it is refused");
        want(t, accepts(t, 0, 1 << AUTH_NO_DH), "the NULL DH group", "it is refused");
        want(t, accepts(t, 0, 1 << AUTH_FFDHE2048), "the group of 2,048 bits", "it is refused");
        want(t, accepts(t, 0, 1 << AUTH_FFDHE3072), "the group of 3,072 bits", "it is refused");
}

CASE("fab/auth/success", MUST, RULES(FAB_AUTH_SUCCESS, FAB_AUTH_SUCCESS_HL, FAB_AUTH_ORDER_C2H),
     "HL of Success1 is that of the Challenge, and RVALID says whether the host has sent one")
{
        struct queue *q = challenged_queue(t);
        unsigned hl = auth_received(q)->hl;

        authenticate(q);
        want_eq(t, "the message", auth_received(q)->message, AUTH_SUCCESS1);
        want_eq(t, "HL", auth_received(q)->hl, hl);
        want_eq(t, "RVALID", auth_received(q)->success1->rvalid, auth_is_mutual(t));
}

CASE("fab/auth/again", MUST, NO_RULE,
     "A host that authenticates a second time succeeds or is refused with Command Sequence Error")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m;
        struct reply r;

        authenticate(q);
        begin_auth(q, 0, 0);
        m = next_message(q);
        r = expect_answer(q, send_auth_send(q, m->bytes, m->len, AUTH_SECP));
        if (q->over || r.status == NVME_SEQUENCE_ERROR)
                return;
        want_eq(t, "status", r.status, NVME_SUCCESS);
        receive_auth_message(q);
        authenticate(q);
        expect_works(q);
}

/* --- who has none */

CASE("fab/auth/required", MUST, RULES(FAB_AUTH_REQUIRED),
     "Before authentication, commands other than authentication commands are refused")
{
        struct queue *q = unproven_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
        expect_refusal(q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = 4096));
}

CASE("fab/auth/required-io", MUST, RULES(FAB_AUTH_REQUIRED),
     "Before authentication, commands on an I/O queue are refused")
{
        struct queue *q = unproven_io_queue(t);

        expect_refusal(q, send_cmd(q, .opc = NVME_READ, .nsid = 1, .bytes = 4096, .cdw12 = 0));
}

CASE("fab/auth/required-half", MUST, RULES(FAB_AUTH_REQUIRED),
     "In the middle of an authentication transaction, other commands are refused")
{
        struct queue *q = challenged_queue(t);

        expect_refusal(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
}

CASE("fab/auth/wrong-key", MUST, RULES(FAB_AUTH_R1),
     "An authentication response that is not computed with the host's key is refused")
{
        struct queue *q = challenged_queue(t);
        struct auth_draft *m = next_message(q);

        m->reply.values[0] ^= 1;
        expect_auth_failure(q, m);
}

CASE("fab/auth/wrong-key-io", MUST, RULES(FAB_AUTH_R1),
     "An authentication response on an I/O queue that is not computed with the host's key is "
     "refused")
{
        struct queue *q = unproven_io_queue(t);
        struct auth_draft *m;

        send_auth_message(q, next_message(q));
        want_eq(t, "the message", receive_auth_message(q)->message, AUTH_CHALLENGE);
        m = next_message(q);
        m->reply.values[0] ^= 1;
        expect_auth_failure(q, m);
}

CASE("fab/auth/wrong-byte", MUST, RULES(FAB_AUTH_R1),
     "An authentication response that is wrong in its last byte alone is refused")
{
        struct queue *q = challenged_queue(t);
        struct auth_draft *m = next_message(q);

        m->reply.values[m->reply.hl - 1] ^= 1;
        expect_auth_failure(q, m);
}

CASE("fab/auth/no-response", MUST, RULES(FAB_AUTH_R1),
     "An authentication response of all zeroes is refused")
{
        struct queue *q = challenged_queue(t);
        struct auth_draft *m = next_message(q);

        memset(m->reply.values, 0, m->reply.hl);
        expect_auth_failure(q, m);
}

CASE("fab/auth/failure-ends", MUST, RULES(FAB_AUTH_ENDS),
     "After sending AUTH_Failure1 the controller closes the connection")
{
        struct queue *q = challenged_queue(t);
        struct auth_draft *m = next_message(q);

        m->reply.values[0] ^= 1;
        expect_answer(q, send_auth_send(q, m->bytes, m->len, AUTH_SECP));
        if (!q->over)
                expect_answer(q, send_auth_receive(q, AUTH_RECEIVE_MAX));
        expect_end(q, 2000);
}

CASE("fab/auth/host-gives-up", MUST, NO_RULE,
     "After AUTH_Failure2 from the host, commands are refused or the connection is closed")
{
        struct queue *q = challenged_queue(t);
        struct auth_failure f = { .h = { .id = AUTH_FAILURE2 & 0xff, .t_id = auth_t_id(q) },
                                  .rcode = AUTH_RCODE,
                                  .rcodeex = AUTH_FAILED };

        expect_answer(q, send_auth_send(q, &f, sizeof(f), AUTH_SECP));
        if (q->over || expect_answer(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4)).status)
                return;
        expect_end(q, 0); /* Property Get was faster than it */
}

/* --- who needs none */

CASE("fab/auth/not-asked", MUST, RULES(FAB_AUTH_NOT_ASKED),
     "A controller that asked for no authentication never answers Authentication Required")
{
        struct queue *q = admin_queue(t);

        require(t, !q->talk, "the subsystem asks for authentication");
        identify_ctrl(q);
        finish(q, send_cmd(q, .opc = NVME_KEEP_ALIVE)); /* which not each controller has */
        expect_works(q);
}

/* --- Negotiate */

CASE("fab/auth/protocol", MUST, RULES(FAB_AUTH_PROTOCOL),
     "AUTH_Negotiate with an unknown protocol is refused")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        protocol_of(m)->authid = 0x7f;
        expect_auth_failure(q, m);
}

CASE("fab/auth/sc-c", MUST, RULES(FAB_AUTH_SC_C), "AUTH_Negotiate with a reserved SC_C is refused")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        m->negotiate.sc_c = 0x7f;
        expect_auth_failure(q, m);
}

CASE("fab/auth/hash-unknown", MUST, RULES(FAB_AUTH_HASH),
     "AUTH_Negotiate that offers only a reserved hash function is refused")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        protocol_of(m)->halen = 1;
        protocol_of(m)->hashes[0] = 0x7f;
        expect_auth_failure(q, m);
}

CASE("fab/auth/group-unknown", MUST, RULES(FAB_AUTH_GROUP),
     "AUTH_Negotiate that offers only a reserved DH group is refused")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        protocol_of(m)->dhlen = 1;
        protocol_of(m)->groups[0] = 0x7f;
        expect_auth_failure(q, m);
}

/* One of HALEN and DHLEN, at this offset of the descriptor, is more than there is room for. */
static void send_long_list(struct t *t, size_t at)
{
        static const uint8_t lens[] = { 31, 255 };

        for (unsigned i = 0; i < sizeof(lens); i++) {
                struct queue *q = unproven_queue(t);
                struct auth_draft *m = next_message(q);

                ((uint8_t *)protocol_of(m))[at] = lens[i];
                expect_auth_failure(q, m);
        }
}

CASE("fab/auth/halen", MUST, RULES(FAB_AUTH_LENGTHS),
     "AUTH_Negotiate with HALEN 31 or 255 is refused, and nothing beyond the list is read",
     .related = "nvmet 5bb96cc21883")
{
        send_long_list(t, offsetof(struct auth_protocol, halen));
}

CASE("fab/auth/dhlen", MUST, RULES(FAB_AUTH_LENGTHS),
     "AUTH_Negotiate with DHLEN 31 or 255 is refused, and nothing beyond the list is read",
     .related = "nvmet 5bb96cc21883")
{
        send_long_list(t, offsetof(struct auth_protocol, dhlen));
}

CASE("fab/auth/negotiate-cut", MUST, RULES(FAB_AUTH_LENGTHS),
     "AUTH_Negotiate that ends before its protocol descriptor does is refused",
     .related = "nvmet 5bb96cc21883")
{
        static const uint32_t lens[] = { 8, 40, 71 };

        for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
                struct queue *q = unproven_queue(t);
                struct auth_draft *m = next_message(q);

                m->len = lens[i];
                expect_auth_failure(q, m);
        }
}

CASE("fab/auth/order", MUST, RULES(FAB_AUTH_ORDER),
     "A Reply that no Challenge asked for is refused")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        memset(m->bytes + sizeof(m->header), 0, sizeof(m->bytes) - sizeof(m->header));
        m->header.type = AUTH_REPLY >> 8;
        m->header.id = AUTH_REPLY & 0xff;
        m->reply.hl = (uint8_t)auth_hash_len(AUTH_SHA256);
        m->len = (uint32_t)sizeof(m->reply) + 2u * m->reply.hl;
        expect_auth_failure(q, m);
}

CASE("fab/auth/message-unknown", MUST, RULES(FAB_AUTH_ORDER),
     "An authentication message of an unknown type is refused")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        m->header.id = 0x7f;
        expect_auth_failure(q, m);
}

/* --- Reply */

CASE("fab/auth/t-id", MUST, RULES(FAB_AUTH_T_ID), "A Reply with a different T_ID is refused")
{
        struct queue *q = challenged_queue(t);
        struct auth_draft *m = next_message(q);

        m->header.t_id = le16(le16_get(m->header.t_id) ^ 1);
        expect_auth_failure(q, m);
}

CASE("fab/auth/hl", MUST, RULES(FAB_AUTH_HL),
     "A Reply whose HL does not match the hash function is refused")
{
        struct queue *q = challenged_queue(t);
        struct auth_draft *m = next_message(q);

        m->reply.hl -= 16;
        expect_auth_failure(q, m);
}

CASE("fab/auth/reply-cut", MUST, RULES(FAB_AUTH_LENGTHS),
     "A Reply that ends before its DH value does is refused")
{
        struct queue *q = challenged_queue_of(t, WITH_DH);
        struct auth_draft *m = next_message(q);

        m->len -= 64;
        expect_auth_failure(q, m);
}

CASE("fab/auth/dhvlen-0", MUST, RULES(FAB_AUTH_DHV), "A Reply without a DH value is refused")
{
        struct queue *q = challenged_queue_weakly(t, WITH_DH, AUTH_ZERO);
        struct auth_draft *m = next_message(q);

        m->len -= le16_get(m->reply.dhvlen);
        m->reply.dhvlen = le16(0);
        expect_auth_failure(q, m);
}

/* Its response is right: who does not look at the value takes the host for proven. */
static void send_weak(struct t *t, enum auth_weak weak)
{
        struct queue *q = challenged_queue_weakly(t, WITH_DH, weak);

        expect_auth_failure(q, next_message(q));
}

CASE("fab/auth/dhv-0", MUST, RULES(FAB_AUTH_DHV), "A Reply with the DH value 0 is refused")
{
        send_weak(t, AUTH_ZERO);
}

CASE("fab/auth/dhv-1", MUST, RULES(FAB_AUTH_DHV), "A Reply with the DH value 1 is refused")
{
        send_weak(t, AUTH_ONE);
}

CASE("fab/auth/dhv-p-1", MUST, RULES(FAB_AUTH_DHV), "A Reply with the DH value p - 1 is refused")
{
        enum { TIMES = 20 }; /* who uses it is found out by every other one: its exponent is even */

        for (unsigned i = 0; i < TIMES; i++)
                send_weak(t, AUTH_TOP);
}

CASE("fab/auth/challenge-returned", MUST, RULES(FAB_AUTH_C2),
     "A Reply that returns the controller's own challenge is refused")
{
        struct queue *q = challenged_queue(t);
        const struct auth_view *challenge = auth_received(q);
        struct auth_draft *m;

        require(t, auth_is_mutual(t), "the subsystem's key is not known (--dhchap-ctrl-secret)");
        m = next_message(q);
        memcpy(m->reply.values + m->reply.hl, challenge->cval, challenge->hl);
        expect_auth_failure(q, m);
}

/* --- Challenge */

CASE("fab/auth/fresh", SHOULD, RULES(FAB_AUTH_FRESH),
     "Two Challenges have different challenge values")
{
        const struct auth_view *a = auth_received(challenged_queue(t));
        const struct auth_view *b = auth_received(challenged_queue(t));

        require(t, a->hl == b->hl, "the two Challenges use different hash functions");
        want(t, memcmp(a->cval, b->cval, a->hl) != 0, "different challenges",
             "the same challenge twice");
}

/* --- commands */

CASE("fab/auth/secp", MUST, RULES(FAB_AUTH_SECP), "Authentication Send with SECP 0 is refused")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        expect_refusal(q, send_auth_send(q, m->bytes, m->len, 0));
}

CASE("fab/auth/room", MUST, RULES(FAB_AUTH_ROOM),
     "Authentication Receive into a buffer too small for the Challenge returns no part of it",
     .related = "nvmet fa6778e030be")
{
        struct queue *q = unproven_queue(t);

        send_auth_message(q, next_message(q));
        expect_refusal(q, send_auth_receive(q, 16));
}

CASE("fab/auth/after-message", SHOULD, RULES(FAB_AUTH_ZEROES),
     "Authentication Receive returns zeroes, not stale memory, after the end of the message",
     .related = "nvmet 3ddcfb013322")
{
        static const uint8_t zeroes[4096];
        struct queue *q = unproven_queue(t);
        struct auth_view v;
        struct reply r;

        begin_auth(q, 0, 1 << AUTH_NO_DH);
        send_auth_message(q, next_message(q));
        r = succeed(q, send_auth_receive(q, sizeof(zeroes)));
        require(t, auth_view(&v, r.data, r.got) == 0, "the controller returns no message");
        want_bytes(t, "zeroes after the message", r.data + v.len, zeroes, r.got - v.len);
}

CASE("fab/auth/odd-lengths", MUST, NO_RULE,
     "Authentication Send and Receive of 0 bytes, and of far more than any message has, are "
     "answered")
{
        static const uint8_t bytes[65536];
        struct queue *q = unproven_queue(t);

        expect_answer(q, send_auth_send(q, NULL, 0, AUTH_SECP));
        q = unproven_queue(t);
        expect_answer(q, send_auth_receive(q, 0));
        q = unproven_queue(t);
        expect_answer(q, send_auth_send(q, bytes, sizeof(bytes), AUTH_SECP));
        q = unproven_queue(t);
        send_auth_message(q, next_message(q));
        expect_answer(q, send_auth_receive(q, sizeof(bytes)));
}

CASE("fab/auth/too-early", MUST, NO_RULE,
     "Authentication Receive before any Authentication Send does not return a success message")
{
        struct queue *q = unproven_queue(t);
        struct reply r = expect_answer(q, send_auth_receive(q, AUTH_RECEIVE_MAX));
        struct auth_view v;

        if (!q->over && r.status == NVME_SUCCESS && auth_view(&v, r.data, r.got) == 0)
                want(t, v.message == AUTH_FAILURE1, "AUTH_Failure1", "%s",
                     auth_message_name(v.message));
}

CASE("fab/auth/hang-up", MUST, NO_RULE,
     "The target works on after 30 authentication transactions whose connection ends midway",
     .storm = true, .related = "CVE-2026-89970")
{
        for (unsigned i = 0; !is_enough(t, i, 30); i++) {
                struct queue *q = unproven_queue(t);

                begin_auth(q, 0, 1 << AUTH_FFDHE2048); /* the group that costs least */
                send_auth_message(q, next_message(q));
                if (i % 3 == 0)
                        send_auth_receive(q, AUTH_RECEIVE_MAX);
                if (i & 1)
                        rst(q);
                else
                        hang_up(q);
        }
}

/* --- once more */

/* A queue whose host is proven, ready, and has begun to prove itself once more; skips the case where that
 * is not possible. */
static struct queue *beginning_again(struct t *t)
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m;
        struct reply r;

        authenticate(q);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        begin_auth(q, 0, 0);
        m = next_message(q);
        r = expect_answer(q, send_auth_send(q, m->bytes, m->len, AUTH_SECP));
        require(t, !q->over && r.status == NVME_SUCCESS, "no host can authenticate itself again");
        return q;
}

/* By 8.3.4.2 the earlier authentication stays; by 3.3.2.3 all else is refused while one is under way. */
static void prefer_executed(struct queue *q, uint16_t cid)
{
        uint16_t status = finish(q, cid).status;

        if (status == NVME_AUTH_REQUIRED)
                lenient(q->t, "Success", "Authentication Required");
        else if (!q->over)
                want_eq(q->t, "status", status, NVME_SUCCESS);
}

CASE("fab/auth/stays", MUST, RULES(FAB_AUTH_STAYS),
     "Commands are executed while a host that is authenticated does it once more")
{
        struct queue *q = beginning_again(t);

        prefer_executed(q, send_property_get(q, PROP_VS, PROP_ATTRIB_4));
        receive_auth_message(q);
        prefer_executed(
            q, send_cmd(q, .opc = NVME_IDENTIFY, .cdw10 = CNS_CTRL, .bytes = IDENTIFY_LEN));
        authenticate(q);
        expect_works(q);
}

CASE("fab/auth/wrong-again", MUST, RULES(FAB_AUTH_ENDS),
     "A host that proves itself once more, and fails, loses its connection")
{
        struct queue *q = beginning_again(t);
        struct auth_draft *m;

        receive_auth_message(q);
        m = next_message(q);
        m->reply.values[0] ^= 1;
        expect_answer(q, send_auth_send(q, m->bytes, m->len, AUTH_SECP));
        if (!q->over)
                expect_answer(q, send_auth_receive(q, AUTH_MESSAGE_MAX));
        if (!q->over)
                expect_end(q, 0);
}

CASE("fab/auth/idle", MUST, RULES(FAB_AUTH_IDLE),
     "Authentication Receive after success fails with Command Sequence Error")
{
        struct queue *q = unproven_queue(t);

        authenticate(q);
        expect_error(q, send_auth_receive(q, 512), NVME_SEQUENCE_ERROR);
        expect_works(q);
}

CASE("fab/auth/idle-after-reset", MUST, RULES(FAB_AUTH_IDLE),
     "A Controller Reset drops the message that Authentication Receive would have brought")
{
        struct queue *q = beginning_again(t);

        set_cc(q, 0, CSTS_RDY, 0);
        expect_error(q, send_auth_receive(q, AUTH_MESSAGE_MAX), NVME_SEQUENCE_ERROR);
        expect_works(q);
}

/* Keep Alive keeps the association, not the transaction. */
CASE("fab/auth/timeout", SHOULD, RULES(FAB_AUTH_TIMEOUT),
     "A transaction without a command for longer than KATO is over, and the queue works on",
     .slow = true, .unmoved = true)
{
        enum { ASKED = 1500, STEP = 200 };
        struct queue *q = unproven_queue(t);
        struct auth_draft *m;
        struct reply r;
        uint32_t asked = t->suite->timeout_scale > 1 ? (uint32_t)t_scaled(t, ASKED) : ASKED, kato;

        authenticate(q);
        set_cc(q, CC_RUN, CSTS_RDY, CSTS_RDY);
        succeed(q, send_set_feature(q, FEAT_KATO, asked));
        kato = get_feature(q, FEAT_KATO);
        require(t, kato > 0 && kato <= asked + asked / 3, "KATO is raised to %u ms", kato);
        begin_auth(q, 0, 0);
        m = next_message(q);
        r = expect_answer(q, send_auth_send(q, m->bytes, m->len, AUTH_SECP));
        require(t, !q->over && r.status == NVME_SUCCESS, "no host can authenticate itself again");
        for (uint32_t ms = 0; ms < kato + kato / 2; ms += STEP) {
                pause_ms(t, STEP);
                require(t,
                        expect_resp(q, send_cmd(q, .opc = NVME_KEEP_ALIVE)).status !=
                            NVME_AUTH_REQUIRED,
                        "commands are refused while a host authenticates itself again");
        }
        expect_error(q, send_auth_receive(q, AUTH_MESSAGE_MAX), NVME_SEQUENCE_ERROR);
        expect_works(q);
}

CASE("fab/auth/several-protocols", SHOULD, RULES(FAB_AUTH_SEVERAL),
     "AUTH_Negotiate with an unknown protocol before DH-HMAC-CHAP is answered with a Challenge")
{
        struct queue *q = unproven_queue(t);
        struct auth_draft *m = next_message(q);

        memcpy(protocol_of(m) + 1, protocol_of(m), sizeof(struct auth_protocol));
        protocol_of(m)->authid = 0x7f;
        m->negotiate.napd = 2;
        m->len += (uint32_t)sizeof(struct auth_protocol);
        send_auth_message(q, m);
        want_eq(t, "the message", receive_auth_message(q)->message, AUTH_CHALLENGE);
}
