/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP sockets as NVMe/TCP wants them: non-blocking, close-on-exec, TCP_NODELAY, keepalive.
 * Addresses are a TRADDR (name, IPv4 or IPv6 address, the latter also in brackets or with a %scope)
 * and a TRSVCID (decimal port). Errors come as one line of text without line end.
 */
#ifndef NVMF_IO_NET_H
#define NVMF_IO_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addrinfo;

enum { NET_TRADDR = 256, NET_ERROR = 320 }; /* bytes that are enough for an address, for an error */

/* The addresses of a TRADDR and a TRSVCID, to be freed by freeaddrinfo(); flags as in AI_PASSIVE (with
 * it "" is every address); or NULL and the error. */
struct addrinfo *net_resolve(const char *traddr, const char *trsvcid, int flags, char *error,
                             size_t size);

/* A listening socket, or -1 and the error. trsvcid "0": any free port, see net_local_port(). */
int net_listen(const char *traddr, const char *trsvcid, char *error, size_t size);

/* A connection from a listener: the socket, or -1 with errno (EAGAIN: none waits). */
int net_accept(int listener);

/* A connection, established within timeout_ms (0: at once or never; resolving the name is not
 * counted); -1, the error and errno (0: the name is unknown). All addresses of a name are tried, in order. */
int net_connect(const char *traddr, const char *trsvcid, unsigned timeout_ms, char *error,
                size_t size);

/* Port and numeric address of this end and of the other; port 0, "" if there is none. IPv4 over a
 * socket for both is IPv4. */
uint16_t net_local_port(int fd);
uint16_t net_peer_port(int fd);
void net_local_addr(int fd, char addr[NET_TRADDR]);
void net_peer_addr(int fd, char addr[NET_TRADDR]);

/* Waits until any of `events` (poll.h) is there: those that are, 0 after timeout_ms (-1: never), or
 * -1 with errno. A signal does not end the wait early. */
int net_wait(int fd, short events, int timeout_ms);

/* Closes with RST instead of FIN, whatever is unsent. */
void net_reset_close(int fd);

/* "ADDR:PORT", "[V6]:PORT" or ":PORT" in two; false if it is neither or a part does not fit. */
bool net_split(const char *text, char addr[NET_TRADDR], char port[32]);

#endif
