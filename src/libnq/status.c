/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What /proc says of a queue: its counters, and the process that has bound it.
 *
 * Theory of operation
 *
 *   /proc/net/netfilter/nfnetlink_queue has a line a queue of this network namespace:
 *
 *     queue portid waiting copy_mode copy_range dropped user_dropped id_sequence 1
 *
 *   An open descriptor gives fresh content at every read from offset 0, also after privileges are dropped, when the
 *   file could no longer be opened.
 *
 *   The portid names the owner's netlink socket, and is not its pid in general: a process's second socket has an
 *   arbitrary one, and a socket may be handed on. /proc/net/netlink maps it to an inode, and the descriptors of some
 *   process link to that inode.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* The calling thread's network namespace, which need not be that of the process's first thread. */
#define STATUS_PROC_NET "/proc/thread-self/net/"

int nq_status_open(void)
{
	int fd = open(STATUS_PROC_NET "netfilter/nfnetlink_queue", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? -EPROTONOSUPPORT : -errno;
}

static bool status_parse_line(const char *line, uint16_t queue, struct nq_status *status)
{
	uint32_t number;
	int fields = sscanf(line,
			    "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32 "%" SCNu32,
			    &number, &status->portid, &status->waiting, &status->copy_mode, &status->copy_bytes,
			    &status->dropped, &status->user_dropped, &status->id_sequence);
	return fields == 8 && number == queue;
}

int nq_status_find(int fd, uint16_t queue, struct nq_status *status)
{
	char buffer[4096];
	size_t kept = 0;
	off_t offset = 0;

	for (;;) {
		ssize_t got = pread(fd, buffer + kept, sizeof(buffer) - 1 - kept, offset);
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENOENT;
		offset += got;
		buffer[kept + (size_t)got] = '\0';

		char *line = buffer;
		for (char *end = strchr(line, '\n'); end; line = end + 1, end = strchr(line, '\n')) {
			*end = '\0';
			if (status_parse_line(line, queue, status))
				return 0;
		}
		kept = strlen(line);
		memmove(buffer, line, kept);
	}
}

/* The inode of the netlink socket with this portid, as /proc/net/netlink lists it; 0 if it does not. */
static unsigned long status_find_inode(uint32_t portid)
{
	FILE *file = fopen(STATUS_PROC_NET "netlink", "re");
	char line[256];
	unsigned long found = 0;

	if (!file)
		return 0;
	while (!found && fgets(line, sizeof(line), file)) {
		unsigned int protocol;
		uint32_t id;
		unsigned long inode;
		if (sscanf(line, "%*s %u %" SCNu32 " %*s %*s %*s %*s %*s %*s %lu", &protocol, &id, &inode) != 3)
			continue;
		if (protocol == NETLINK_NETFILTER && id == portid)
			found = inode;
	}
	fclose(file);
	return found;
}

static bool status_process_holds(const char *pid, unsigned long inode)
{
	char path[sizeof("/proc//fd") + 256];
	char wanted[64];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	DIR *directory = opendir(path);
	if (!directory)
		return false;
	for (struct dirent *entry; !found && (entry = readdir(directory));) {
		char target[64];
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
		if (length > 0) {
			target[length] = '\0';
			found = strcmp(target, wanted) == 0;
		}
	}
	closedir(directory);
	return found;
}

static void status_read_command(const char *pid, struct nq_owner *owner)
{
	char path[sizeof("/proc//comm") + 256];

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(owner->command, sizeof(owner->command), file))
		owner->command[strcspn(owner->command, "\n")] = '\0';
	fclose(file);
}

static void status_find_process(unsigned long inode, struct nq_owner *owner)
{
	DIR *proc = opendir("/proc");

	if (!proc)
		return;
	for (struct dirent *entry; !owner->pid && (entry = readdir(proc));) {
		if (!isdigit((unsigned char)entry->d_name[0]) || !status_process_holds(entry->d_name, inode))
			continue;
		owner->pid = (pid_t)strtol(entry->d_name, NULL, 10);
		status_read_command(entry->d_name, owner);
	}
	closedir(proc);
}

int nq_owner_find(uint16_t queue, struct nq_owner *owner)
{
	struct nq_status status = { 0 };
	int fd = nq_status_open();
	if (fd < 0)
		return fd;
	int error = nq_status_find(fd, queue, &status);
	close(fd);
	if (error)
		return error;

	*owner = (struct nq_owner){ 0 };
	unsigned long inode = status_find_inode(status.portid);
	if (inode)
		status_find_process(inode, owner);
	return 0;
}
