/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The library's counters by name, for whoever writes or reads all of them. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include <jansson.h>
#include <stdbool.h>

#include "nq.h"

/* Adds the counters, in the documented order; without lengths those that tell some are null. */
void counters_put_json(json_t *object, const struct nq_counters *counters, bool lengths_known);

/* The other way round; a counter that is not there is 0. */
void counters_get_json(const json_t *object, struct nq_counters *counters);

/* Adds them up; of the greatest lengths it takes the greater. */
void counters_add(struct nq_counters *sum, const struct nq_counters *counters);

#endif
