/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays inputs through one fuzz target, for builds without libFuzzer:
 *
 *      fuzz_TARGET FILE|DIRECTORY...
 *
 * A finding ends it as it ends a fuzzer: by a signal or a sanitizer's report, after the name of the
 * file. Exit: 0 all inputs passed, 2 nothing to replay or not readable.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

enum { EXIT_USAGE = 2 };

static unsigned played;

static bool play_file(const char *path, size_t size)
{
        FILE *f = fopen(path, "rb");
        uint8_t *input =
            malloc(size > 0 ? size : 1); /* of just this size: a byte too far is seen */
        size_t n = f && input ? fread(input, 1, size, f) : 0;
        bool ok = f && input && n == size;

        if (f)
                fclose(f);
        if (ok) {
                fprintf(stderr, "%s\r", path);
                LLVMFuzzerTestOneInput(input, size);
                played++;
        } else {
                perror(path);
        }
        free(input);
        return ok;
}

static bool play(const char *path);

static bool play_directory(const char *path)
{
        struct dirent **entries;
        int n = scandir(path, &entries, NULL, alphasort);
        bool ok = n >= 0;

        for (int i = 0; i < n; i++) {
                char file[4096];

                snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
                if (entries[i]->d_name[0] != '.')
                        ok &= play(file);
                free(entries[i]);
        }
        if (n >= 0)
                free(entries);
        return ok;
}

static bool play(const char *path)
{
        struct stat st;

        if (stat(path, &st) != 0) {
                perror(path);
                return false;
        }
        return S_ISDIR(st.st_mode) ? play_directory(path) : play_file(path, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
        bool ok = true;

        for (int i = 1; i < argc; i++)
                ok &= play(argv[i]);
        fprintf(stderr, "\n%u inputs\n", played);
        return ok && played > 0 ? 0 : EXIT_USAGE;
}
