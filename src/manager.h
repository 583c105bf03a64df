/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The service manager, if one has started us: what it is told, and what it keeps for us. Without libsystemd, or without
 * a manager, all of this does nothing. */
#ifndef MANAGER_H
#define MANAGER_H

#include <stdbool.h>
#include <stdint.h>

/* Names of what it keeps: a queue's socket, with its number behind, and what we noted of our start. */
#define MANAGER_NAME_QUEUE "queue-"
#define MANAGER_NAME_STATE "state"

/* Is somebody there who wants to be told? */
bool manager_is_there(void);

void manager_tell_ready(void);
void manager_tell_restart(void);
void manager_tell_stop(void);

/* It restarts who does not say so within manager_watchdog_us(), which is 0 if it does not care. */
void manager_tell_alive(void);
uint64_t manager_watchdog_us(void);

/* Has it keep a copy of the descriptor until the service is stopped. */
void manager_keep(int fd, const char *name);

/* Calls `take` for each descriptor that it kept, which are the caller's from then on. -ENOSYS without libsystemd. */
int manager_list_kept(void (*take)(void *context, int fd, const char *name), void *context);

#endif
