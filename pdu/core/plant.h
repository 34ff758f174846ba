/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Planted bugs: what a fuzzer has to find before anybody believes that it finds anything. The code has
 * them only where NVMF_PLANT is defined (a build of its own, never a release), and of those one at
 * most is on. Otherwise PLANTED() is the constant false, and nothing of this is in the program.
 */
#ifndef NVMF_WIRE_PLANT_H
#define NVMF_WIRE_PLANT_H

#include <stdbool.h>

enum plant {
        PLANT_NONE,
#define PLANT(symbol, ...) PLANT_##symbol,
#include "plants.def"
#undef PLANT
        PLANTS
};

#ifdef NVMF_PLANT
extern enum plant plant_on; /* set before anything runs */
#define PLANTED(symbol) (plant_on == PLANT_##symbol)
#else
#define PLANTED(symbol) false
#endif

struct plant_info {
        const char *name, *found_by, *does, *after;
};
/* Of PLANT_NONE + 1 to PLANTS - 1; where nothing is planted NULL. */
const struct plant_info *plant_get(enum plant p);
/* Switches on the one of this name; false: there is none. */
bool plant_switch_on(const char *name);

#endif
