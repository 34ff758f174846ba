/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_FUZZ_SRP_CAPTURE_H
#define NVMF_FUZZ_SRP_CAPTURE_H

#include "fuzz/campaign/corpus.h"

/*
 * Adds what the initiators of a capture asked: channels that were open together make a sequence. A request becomes a step
 * of the template that is most like it, with the fields changed in which it differs; tags, keys and addresses are bound
 * again, contents of data are not kept. What a sequence has no room for is left out. False: err (CORPUS_ERROR bytes) has
 * one line, or what another family said of a capture without SRP.
 */
bool srp_sequences(struct corpus *c, const char *path, char *err);

#endif
