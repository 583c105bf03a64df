/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a worker does with packets. The no-op is one such processor among others. */
#ifndef PROCESSOR_H
#define PROCESSOR_H

#include "nq.h"

struct processor {
	const char *name;
	nq_process_fn *process;
	/* Optional: makes the context of one worker, which the worker owns; 0 or a negative errno. */
	int (*open)(uint16_t queue, void **context);
	void (*close)(void *context);
	/* System calls that it makes; NULL = none. Ends with PRIVILEGE_END. */
	const int *calls;
};

extern const struct processor processor_noop;
extern const struct processor processor_trace;

#endif
