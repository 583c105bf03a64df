/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Failures of the start, in words. */
#include "explain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void explain_owner(uint16_t queue, char text[EXPLAIN_BYTES])
{
	struct nq_owner owner;

	if (nq_owner_find(queue, &owner) < 0 || !owner.pid)
		snprintf(text, EXPLAIN_BYTES,
			 "queue %u: owned by a process that cannot be seen from here (other user or pid namespace): "
			 "end it, or choose another queue with --queue",
			 queue);
	else
		snprintf(text, EXPLAIN_BYTES,
			 "queue %u: owned by %s (pid %d): end it, or choose another queue with --queue", queue,
			 owner.command, (int)owner.pid);
}

void explain_open(uint16_t queue, int error, char text[EXPLAIN_BYTES])
{
	switch (-error) {
	case EBUSY:
		explain_owner(queue, text);
		break;
	case EPERM:
		snprintf(text, EXPLAIN_BYTES,
			 "queue %u: needs CAP_NET_ADMIN in this network namespace: run as root, or give the "
			 "container the capability",
			 queue);
		break;
	case EPROTONOSUPPORT:
		snprintf(text, EXPLAIN_BYTES,
			 "queue %u: this kernel has no nfnetlink_queue: \"modprobe nfnetlink_queue\", or a kernel "
			 "with CONFIG_NETFILTER_NETLINK_QUEUE",
			 queue);
		break;
	case EOPNOTSUPP:
		snprintf(text, EXPLAIN_BYTES,
			 "queue %u: this kernel does not know a flag of the bind: leave out --fail-open (Linux 3.6) "
			 "or use --no-gso (Linux 3.10)",
			 queue);
		break;
	case EPROTO:
		snprintf(
			text, EXPLAIN_BYTES,
			"queue %u: the kernel acknowledged the bind, but did not set the copy mode: try another --copy",
			queue);
		break;
	case ETIMEDOUT:
		snprintf(text, EXPLAIN_BYTES, "queue %u: the kernel did not answer the bind within 2 s: try again",
			 queue);
		break;
	case ENOMEM:
		snprintf(text, EXPLAIN_BYTES, "queue %u: out of memory: use a lower --burst or --copy", queue);
		break;
	case EMFILE:
		snprintf(text, EXPLAIN_BYTES,
			 "queue %u: the limit on open files is reached: a queue needs two, raise it by \"ulimit -n\"",
			 queue);
		break;
	default:
		snprintf(text, EXPLAIN_BYTES, "queue %u: cannot be bound: %s", queue, strerror(-error));
		break;
	}
}

void explain_thread(const struct options *options, unsigned int worker, int error, char text[EXPLAIN_BYTES])
{
	if (error == -EPERM && rt_policy_is_realtime(&options->sched)) {
		char reason[EXPLAIN_BYTES / 2];
		rt_explain_refusal(&options->sched, reason, sizeof(reason));
		snprintf(text, EXPLAIN_BYTES, "--sched %s:%d: not permitted: %s", rt_policy_name(options->sched.policy),
			 options->sched.priority, reason);
	} else if (error == -EINVAL && options->cpu_count) {
		snprintf(text, EXPLAIN_BYTES,
			 "--cpu: CPU %d does not exist or is not ours to use: \"taskset -cp $$\" lists those that are",
			 options_cpu(options, worker));
	} else {
		snprintf(text, EXPLAIN_BYTES,
			 "queue %u: cannot start its thread: %s: bind fewer queues, or raise the limits on processes "
			 "(\"ulimit -u\") and memory (\"ulimit -v\")",
			 options->config.queue + worker, strerror(-error));
	}
}

void explain_user(const char *user, int error, char text[EXPLAIN_BYTES])
{
	snprintf(text, EXPLAIN_BYTES, "--user %s: %s", user,
		 error == -ENOENT ? "there is no such user: \"getent passwd\" lists them" : strerror(-error));
}
