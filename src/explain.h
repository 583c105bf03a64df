/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Failures of the start, in one line each: the object, the cause, the remedy. */
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include <stdint.h>

#include "options.h"

#define EXPLAIN_BYTES 512

/* What a negative errno of nq_open() means for this queue. */
void explain_open(uint16_t queue, int error, char text[EXPLAIN_BYTES]);

/* What a negative errno of rt_thread_create() means for these options and this worker. */
void explain_thread(const struct options *options, unsigned int worker, int error, char text[EXPLAIN_BYTES]);

/* What a negative errno of privilege_check_user() means. */
void explain_user(const char *user, int error, char text[EXPLAIN_BYTES]);

#endif
