/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service manager.
 *
 * Telling it may fail, as when it is busy; nothing depends on that, so nobody is bothered.
 */
#include "manager.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef HAVE_SYSTEMD

#include <systemd/sd-daemon.h>

bool manager_is_there(void)
{
	return getenv("NOTIFY_SOCKET") != NULL;
}

void manager_tell_ready(void)
{
	sd_notify(0, "READY=1");
}

void manager_tell_restart(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void manager_tell_stop(void)
{
	sd_notify(0, "STOPPING=1");
}

void manager_tell_alive(void)
{
	sd_notify(0, "WATCHDOG=1");
}

uint64_t manager_watchdog_us(void)
{
	uint64_t interval_us = 0;

	return sd_watchdog_enabled(0, &interval_us) > 0 ? interval_us : 0;
}

void manager_keep(int fd, const char *name)
{
	char text[64];

	sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name); /* one of before a restart */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	sd_pid_notify_with_fds(0, 0, text, &fd, 1);
}

int manager_list_kept(void (*take)(void *context, int fd, const char *name), void *context)
{
	char **names = NULL;
	int count = sd_listen_fds_with_names(0, &names);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		take(context, SD_LISTEN_FDS_START + i, names[i]);
		free(names[i]);
	}
	free((void *)names);
	return 0;
}

#else

bool manager_is_there(void)
{
	return false;
}

void manager_tell_ready(void)
{
}

void manager_tell_restart(void)
{
}

void manager_tell_stop(void)
{
}

void manager_tell_alive(void)
{
}

uint64_t manager_watchdog_us(void)
{
	return 0;
}

void manager_keep(int fd, const char *name)
{
	(void)fd;
	(void)name;
}

int manager_list_kept(void (*take)(void *context, int fd, const char *name), void *context)
{
	(void)take;
	(void)context;
	return -ENOSYS;
}

#endif
