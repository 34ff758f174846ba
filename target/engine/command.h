/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `nvmfspec target`, as far as it is the same for every family: where to listen, threads, recording, log, metrics,
 * whose rights, and waiting for signals. The rest is the family's (family.h).
 */
#ifndef NVMF_TARGET_COMMAND_H
#define NVMF_TARGET_COMMAND_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "pdu/io/option.h"

struct capture_writer;
struct target_family;

enum { TARGET_LISTENS = 16 };

struct target_args { /* what a family's arguments begin with */
        const struct target_family *family;
        const char *trtype, *traddr, *trsvcid;
        const char *listens[TARGET_LISTENS]; /* [TRTYPE:]ADDR:PORT beside -a and -s */
        unsigned n_listens;
        uint64_t reactors, busy_poll; /* threads; microseconds */
        cpu_set_t cpus;
        const char *user, *metrics;
        const char *pcap;
        uint64_t pcap_size, pcap_files;
        const char *log_level, *log_format;
        bool trace, quiet, help;
        bool key_on_line; /* a secret is in argv */
};

struct target_command {                   /* what a family has of its own */
        const struct option_row *options; /* of group 1; args begin with a struct target_args */
        size_t args_size;
        const char *intro;            /* for the help: what is served */
        const char *port;             /* where it listens without -s; NULL: that is not said */
        void (*more_help)(FILE *out); /* after the options; NULL: nothing */
        void (*defaults)(void *args); /* before they are parsed; NULL: all zero */
        /* They fit together, and are what start() takes. False: error says in a line what does not. NULL: they always do. */
        bool (*complete)(void *args, char *error, size_t size);
        /* The target serves from here on; what goes over it is written to record, which may be NULL. NULL: error says
         * why not. */
        void *(*start)(void *args, struct capture_writer *record, char *error, size_t size);
        /* Before root is given up for that user: what only root may hand over. NULL: there is nothing. -1 with errno. */
        int (*give)(void *started, uid_t uid, gid_t gid);
        /* After that: who controls it from outside may do so. NULL: nobody. */
        bool (*control)(void *started, void *args, char *error, size_t size);
        /* A line for standard output: where it listens, and what is there. */
        void (*describe)(void *started, const void *args, char *text, size_t size);
        /* SIGHUP (NULL: nothing is read again): 0; -1: nothing has changed, 1: not all of it has, and error says why. */
        int (*reload)(void *started, const void *args, char *error, size_t size);
        /* A page for Prometheus, to be freed; NULL: out of memory. Any thread. NULL itself: --metrics is refused. */
        char *(*metrics)(void *started, size_t *len);
        /* Secrets in args are no longer needed. Also without start(). NULL: there are none. */
        void (*forget)(void *args);
        void (*stop)(void *started);
};

/* Takes "TYPE:" off the beginning of a place, where TYPE is one of the family's transports; else that of -t, or the
 * first one. */
const char *target_transport(const struct target_args *a, const char **place);

/* argv from "target" on; families: ended by NULL, the first one unless -t says another's transport. The exit code. */
int target_command(const struct target_family *const *families, int argc, char **argv);

#endif
