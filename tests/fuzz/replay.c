/*
** replay.c - the main of a fuzz target where libFuzzer is not linked: feeds
** it the files named on the command line.
*/
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    struct err e;
    int i;

    for (i = 1; i < argc; i++) {
        struct buf b = BUF_INIT;
        uint8_t *exact;
        if (file_read(argv[i], (size_t)1 << 24, &b, &e) != ERR_OK) {
            fprintf(stderr, "%s\n", e.text);
            return 1;
        }
        /* a block of just this size, so that a read past its end is seen */
        exact = malloc(b.len ? b.len : 1);
        if (exact == NULL) return 1;
        for (size_t k = 0; k < b.len; k++) exact[k] = (uint8_t)b.data[k];
        LLVMFuzzerTestOneInput(exact, b.len);
        free(exact);
        buf_free(&b);
    }
    return 0;
}
