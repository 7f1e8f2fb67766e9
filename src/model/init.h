/*
** init.h - how the first contents of weights are drawn, where no checkpoint
** has them.
**
**   own           by base/random.h: every product keeps its input's size, so
**                 that tests see every term
**   megatron      as Megatron-LM draws them: N(0, 0.02), what mixers, experts
**                 and MLPs put out N(0, 0.02 / sqrt(2 layers)), norms of one,
**                 biases of zero, the convolution of a GDN uniform in
**                 1 / sqrt(its width), A uniform in [1, 16), dt_bias 1
**   huggingface   as transformers does: N(0, 0.02) throughout, norms of one,
**                 biases of zero, A uniform in (0, 16), dt_bias 1
**
** With the latter two adapters are A ~ N(0, 1) and B ~ 0.001 N(0, 1), and
** what is called N(0, x) is drawn uniform with the deviation x: each number is
** one of hundreds in a sum, which does not tell one from the other.
*/
#ifndef MODEL_INIT_H
#define MODEL_INIT_H

enum weight_init { INIT_OWN, INIT_MEGATRON, INIT_HUGGINGFACE, INIT_COUNT };

/* "own", "megatron", "huggingface"; NULL-ended. */
extern const char *const weight_init_words[];

#endif
