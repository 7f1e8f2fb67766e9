/* version.c - see version.h */
#include "base/version.h"

const char peakproof_version[] = PEAKPROOF_VERSION;
const char peakproof_release[] = PEAKPROOF_RELEASE;
const char peakproof_prefix[] = PEAKPROOF_PREFIX;
