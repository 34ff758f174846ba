/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One page of text over HTTP/1.1, for programs that ask for it now and then: served by a thread of its own,
 * to few clients, each of which has one request and little time. Whatever is wrong with a client ends with
 * it.
 */
#ifndef NVMF_IO_PAGE_SERVER_H
#define NVMF_IO_PAGE_SERVER_H

#include <stddef.h>
#include <stdint.h>

enum {
        PAGE_CLIENTS = 16,      /* at once; one more takes the place of the oldest */
        PAGE_REQUEST = 8192,    /* bytes of a request */
        PAGE_TIMEOUT_MS = 5000, /* from the connection to its end */
};

struct page {
        const char *path, *type; /* "/metrics", its Content-Type */
        /* Text to be freed; NULL: out of memory. On the server's thread. */
        char *(*make)(void *user, size_t *len);
        void *user;
};

struct page_server;

/* Takes the place; nobody is served before page_server_run(). NULL: error has one line. */
struct page_server *page_server_open(const char *traddr, const char *trsvcid, char *error,
                                     size_t size);
uint16_t page_server_port(const struct page_server *s);
/* The page outlives it. 0, or -1 with errno. */
int page_server_run(struct page_server *s, const struct page *page);
/* Waits for the page that is being made; closes all. NULL: nothing. */
void page_server_close(struct page_server *s);

#endif
