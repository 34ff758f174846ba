/* SPDX-License-Identifier: BSD-3-Clause */
/* `nvmfspec pcap`: reads captures of NVMe/TCP, RoCEv2 and iWARP. */
#ifndef NVMF_PCAP_COMMAND_H
#define NVMF_PCAP_COMMAND_H

enum pcap_exit {
        PCAP_OK = 0,
        PCAP_BROKEN = 1, /* check: a rule of level must is broken */
        PCAP_USAGE = 2,
        PCAP_UNREADABLE = 3, /* the file, or what was to be written */
        PCAP_UNJUDGED = 4,   /* check: nothing in the file could be judged */
};

struct trace_family;

/* Returns the exit code. argv[0] is "pcap". families: those that are read, ended by NULL; the first one has the ports that
 * options name. */
int pcap_command(const struct trace_family *const *families, int argc, char **argv);

#endif
