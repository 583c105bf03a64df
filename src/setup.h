/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is tried, arranged and told around the start, one matter each. Messages go to the log. */
#ifndef SETUP_H
#define SETUP_H

#include <stdbool.h>

#include "options.h"
#include "worker.h"

/* Can threads have the policy and the CPUs that were asked for? 0 or a negative errno. */
int setup_try_threads(const struct options *options);

/* Is there the user that was asked for? 0 or a negative errno. */
int setup_check_user(const struct options *options);

/* Lowers the time to spin where a real-time policy forbids to spin for long. */
void setup_bound_spin(struct options *options);

/* To be called once everything is there. Returns whether it is locked; who asks for real time is told why not. */
bool setup_lock_memory(const struct options *options);

/* Tells how long the queue and how large its buffer is, as a warning if the kernel did not grant what it takes. */
void setup_tell_size(const struct worker *worker, const struct nq_config *config);

#endif
