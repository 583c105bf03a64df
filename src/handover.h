/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What one process leaves to the next: queues, accounts, and the options that were in force. */
#ifndef HANDOVER_H
#define HANDOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker.h"

struct handover_queue {
	struct nq_handover queue; /* socket -1 = taken, or only its options are known */
	bool options_known;
	uint32_t flags;
	uint32_t copy_bytes;
	uint32_t maxlen;
};

struct handover {
	bool is_restart;   /* the same process: nothing happened in between */
	uint64_t restarts; /* so far, this one included */
	int64_t start_ns;  /* of the first process */
	int json;	   /* the file that it wrote to; -1 = none */
	unsigned int count;
	struct handover_queue *queues;
};

/*
 * What the process before left in the environment, and with `adopt` what the service manager kept. 0, also if there is
 * nothing, or a negative errno that has been explained. Descriptors that nobody takes are the handover's.
 */
int handover_receive(struct handover *handover, bool adopt);

/* The queue of this number; NULL if nobody has left it. */
struct handover_queue *handover_find(struct handover *handover, uint16_t number);

/* Tells which options of a queue that was taken over are others than before. */
void handover_tell_changes(const struct handover_queue *old, const struct nq_queue *queue,
			   const struct nq_config *config);

/* Gives a queue up that cannot be taken over: what waits in it is lost. */
void handover_drop(struct handover_queue *queue);

/* Answers what waits in queues that nobody took, and closes them. */
void handover_close(struct handover *handover);

/* Writes it down: a descriptor of a file in memory, or a negative errno. */
int handover_write(const struct worker workers[], unsigned int count, const struct handover *rest);

/* Leaves the descriptors and this file to the next program; or takes that back. */
void handover_expose(const struct worker workers[], unsigned int count, const struct handover *rest, int file,
		     bool expose);

#endif
