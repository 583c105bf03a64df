/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Least privilege: what the process and its threads keep once everything is there. */
#ifndef PRIVILEGE_H
#define PRIVILEGE_H

#include <linux/filter.h>
#include <stddef.h>

#include "options.h"

/* A list of system calls ends with this. */
#define PRIVILEGE_END (-10000)

/* A filter that a thread can put on itself. An empty one does nothing. */
struct privilege_filter {
	struct sock_fprog program;
};

/* Looks --user up, if it is given. 0 or a negative errno, -ENOENT if there is no such user. */
int privilege_check_user(const struct options *options);

/* Raises the limits on real-time priority, as far as `options` ask for one, and on locked memory, which take the place of
 * capabilities. To be called before memory is locked; where it is not permitted the limits stay. */
void privilege_keep_limits(const struct options *options);

/*
 * Gives up all but CAP_NET_ADMIN, which each verdict needs, for good: also over execve(), and for the threads that are
 * made later. 0 or a negative errno that has been explained.
 */
int privilege_drop(const struct options *options);

/* Makes the filter that allows the calls of these lists. 0 or a negative errno. */
int privilege_filter_make(struct privilege_filter *filter, enum options_sandbox sandbox, const int *const lists[],
			  size_t count);

/* Puts it on the calling thread. Without an effect if it is empty. 0 or a negative errno. */
int privilege_filter_enter(const struct privilege_filter *filter);

/* Is the calling thread under a filter already? */
bool privilege_is_filtered(void);

void privilege_filter_free(struct privilege_filter *filter);

/* What the first thread needs while it waits, stops, and becomes the program anew. */
extern const int privilege_main_calls[];

#endif
