/* init.c - see init.h */
#include "model/init.h"

#include <stddef.h>

const char *const weight_init_words[] = {
    [INIT_OWN] = "own", [INIT_MEGATRON] = "megatron",
    [INIT_HUGGINGFACE] = "huggingface", [INIT_COUNT] = NULL
};
