/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --check: would it start? */
#ifndef CHECK_H
#define CHECK_H

#include "options.h"

/* Tests what can be tested without binding a queue, and prints a line for each on stdout. Returns the number of
 * failures. Leaves nothing changed. */
unsigned int check_run(const struct options *options);

#endif
