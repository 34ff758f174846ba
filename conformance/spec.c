/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of what the specification demands, as text of the program. */
#include "conform.h"

__asm__(".pushsection .rodata\n.globl nvme_spec\nnvme_spec:\n"
        ".incbin \"B2.2-3.tsv\"\n"
        ".incbin \"B2.2-4.tsv\"\n"
        ".incbin \"B2.2-5.tsv\"\n"
        ".incbin \"B2.2-6.tsv\"\n"
        ".incbin \"B2.2-7.tsv\"\n"
        ".incbin \"B2.2-8.tsv\"\n"
        ".incbin \"B2.2-8.3.tsv\"\n"
        ".incbin \"B2.2-9.tsv\"\n"
        ".incbin \"N1.2.tsv\"\n"
        ".incbin \"R1.0.tsv\"\n"
        ".incbin \"T1.0.tsv\"\n"
        ".byte 0\n.popsection");
