/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The handover.
 *
 * Theory of operation
 *
 *   A queue lives in its socket. Across execve() sockets stay open under their numbers, which a JSON object in a file in
 *   memory tells, together with each queue's account; the environment tells the file. A newer program may know more
 *   fields or fewer: what is missing is 0.
 *
 *   A service manager keeps sockets across a crash, under names, and such an object of our start beside them: numbers
 *   and accounts in it are out of date then, options are not.
 */
#include "handover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "counters.h"
#include "log.h"
#include "manager.h"
#include "worker.h"

#define HANDOVER_VARIABLE "NFQ_NOOP_HANDOVER"
#define HANDOVER_SCHEMA	  1

/* ---- write ---- */

static json_t *handover_json_queue(const struct worker *worker)
{
	const struct nq_config *config = &worker->config;
	struct nq_handover handover;
	json_t *counters = json_object();

	nq_handover_read(worker->queue, &handover);
	counters_put_json(counters, &handover.counters, true);
	return json_pack("{s:i, s:i, s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I}", "queue",
			 (int)handover.queue, "socket", handover.socket, "status", handover.status, "known",
			 handover.is_known, "last_id", (json_int_t)handover.last_id, "ids_skipped",
			 (json_int_t)handover.ids_skipped, "socket_drops", (json_int_t)handover.socket_drops,
			 "user_dropped", (json_int_t)handover.user_dropped, "answers_lost",
			 (json_int_t)handover.answers_lost, "counters", counters, "flags", (json_int_t)config->flags,
			 "copy_bytes", (json_int_t)config->copy_bytes, "maxlen",
			 (json_int_t)nq_maxlen_granted(worker->queue));
}

static json_t *handover_json(const struct worker workers[], unsigned int count, const struct handover *rest)
{
	json_t *queues = json_array();

	for (unsigned int i = 0; i < count; i++)
		json_array_append_new(queues, handover_json_queue(&workers[i]));
	return json_pack("{s:i, s:I, s:I, s:i, s:o}", "schema", HANDOVER_SCHEMA, "restarts", (json_int_t)rest->restarts,
			 "start_ns", (json_int_t)rest->start_ns, "json", rest->json, "queues", queues);
}

int handover_write(const struct worker workers[], unsigned int count, const struct handover *rest)
{
	json_t *root = handover_json(workers, count, rest);
	int file = memfd_create("nfq-noop handover", MFD_CLOEXEC);
	int error = file < 0 ? -errno : 0;

	if (!error && (!root || json_dumpfd(root, file, JSON_COMPACT) < 0))
		error = -ENOMEM;
	json_decref(root);
	if (!error)
		return file;
	if (file >= 0)
		close(file);
	return error;
}

static void handover_expose_one(int fd, bool expose)
{
	if (fd >= 0)
		fcntl(fd, F_SETFD, expose ? 0 : FD_CLOEXEC);
}

void handover_expose(const struct worker workers[], unsigned int count, const struct handover *rest, int file,
		     bool expose)
{
	char number[16];

	for (unsigned int i = 0; i < count; i++) {
		struct nq_handover handover;
		nq_handover_read(workers[i].queue, &handover);
		handover_expose_one(handover.socket, expose);
		handover_expose_one(handover.status, expose);
	}
	if (rest->json > STDERR_FILENO)
		handover_expose_one(rest->json, expose);
	handover_expose_one(file, expose);
	snprintf(number, sizeof(number), "%d", file);
	if (expose)
		setenv(HANDOVER_VARIABLE, number, 1);
	else
		unsetenv(HANDOVER_VARIABLE);
}

/* ---- read ---- */

static int64_t handover_integer(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static int handover_descriptor(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);
	int fd = json_is_integer(value) ? (int)json_integer_value(value) : -1;

	return fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
}

static void handover_read_queue(const json_t *object, bool is_restart, struct handover_queue *queue)
{
	*queue = (struct handover_queue){
		.queue = { .socket = -1, .status = -1, .queue = (uint16_t)handover_integer(object, "queue") },
		.options_known = true,
		.flags = (uint32_t)handover_integer(object, "flags"),
		.copy_bytes = (uint32_t)handover_integer(object, "copy_bytes"),
		.maxlen = (uint32_t)handover_integer(object, "maxlen"),
	};
	if (!is_restart)
		return;
	struct nq_handover *handover = &queue->queue;
	handover->socket = handover_descriptor(object, "socket");
	handover->status = handover_descriptor(object, "status");
	handover->is_known = json_is_true(json_object_get(object, "known"));
	handover->last_id = (uint32_t)handover_integer(object, "last_id");
	handover->ids_skipped = (uint64_t)handover_integer(object, "ids_skipped");
	handover->socket_drops = (uint64_t)handover_integer(object, "socket_drops");
	handover->user_dropped = (uint64_t)handover_integer(object, "user_dropped");
	handover->answers_lost = (uint64_t)handover_integer(object, "answers_lost");
	counters_get_json(json_object_get(object, "counters"), &handover->counters);
}

static int handover_read_json(const json_t *root, struct handover *handover)
{
	const json_t *queues = json_object_get(root, "queues");

	if (handover_integer(root, "schema") != HANDOVER_SCHEMA || !json_is_array(queues))
		return -EPROTO;
	handover->queues = calloc(json_array_size(queues) + 1, sizeof(*handover->queues));
	if (!handover->queues)
		return -ENOMEM;
	handover->restarts = (uint64_t)handover_integer(root, "restarts") + 1;
	handover->start_ns = handover_integer(root, "start_ns");
	if (handover->is_restart)
		handover->json = handover_descriptor(root, "json");
	for (size_t i = 0; i < json_array_size(queues); i++)
		handover_read_queue(json_array_get(queues, i), handover->is_restart,
				    &handover->queues[handover->count++]);
	return 0;
}

static int handover_read_file(int file, struct handover *handover)
{
	json_error_t json_error;

	if (lseek(file, 0, SEEK_SET) < 0)
		return -errno;
	json_t *root = json_loadfd(file, 0, &json_error);
	if (!root)
		return -EPROTO;
	int error = handover_read_json(root, handover);
	json_decref(root);
	return error;
}

static int handover_receive_restart(struct handover *handover, const char *number)
{
	char *end;
	long file = strtol(number, &end, 10);

	unsetenv(HANDOVER_VARIABLE);
	if (*end || end == number || file < 0 || file > INT32_MAX)
		return -EPROTO;
	handover->is_restart = true;
	int error = handover_read_file((int)file, handover);
	close((int)file);
	return error;
}

static struct handover_queue *handover_find_or_add(struct handover *handover, uint16_t number)
{
	struct handover_queue *found = handover_find(handover, number);

	if (found)
		return found;
	struct handover_queue *queues = reallocarray(handover->queues, handover->count + 1, sizeof(*handover->queues));
	if (!queues)
		return NULL;
	handover->queues = queues;
	queues[handover->count] = (struct handover_queue){ .queue = { .socket = -1, .status = -1, .queue = number } };
	return &queues[handover->count++];
}

/* One of the service manager's descriptors, each of which has a name. */
static void handover_take_kept(void *context, int fd, const char *name)
{
	struct handover *handover = context;
	struct handover_queue *queue = NULL;
	uint16_t number;

	if (strcmp(name, MANAGER_NAME_STATE) != 0 && sscanf(name, MANAGER_NAME_QUEUE "%" SCNu16, &number) == 1)
		queue = handover_find_or_add(handover, number);
	if (!queue || queue->queue.socket >= 0)
		close(fd);
	else
		queue->queue.socket = fd;
}

/* The state comes first: it says which options each queue has. */
static void handover_take_state(void *context, int fd, const char *name)
{
	struct handover *handover = context;

	if (strcmp(name, MANAGER_NAME_STATE) == 0 && !handover->queues && handover_read_file(fd, handover) < 0)
		log_warning("--adopt: what the last process had noted cannot be read: its options are not known");
}

static int handover_receive_kept(struct handover *handover)
{
	int error = manager_list_kept(handover_take_state, handover);

	if (!error)
		error = manager_list_kept(handover_take_kept, handover);
	handover->restarts = 0; /* after a crash the account is a new one */
	return error;
}

static const char *handover_explain(int error)
{
	if (error == -EPROTO)
		return "not what this program writes";
	return error == -ENOSYS ? "this program was built without libsystemd" : strerror(-error);
}

int handover_receive(struct handover *handover, bool adopt)
{
	const char *number = getenv(HANDOVER_VARIABLE);
	int error = 0;

	*handover = (struct handover){ .json = -1 };
	if (number)
		error = handover_receive_restart(handover, number);
	else if (adopt)
		error = handover_receive_kept(handover);
	if (error)
		log_error("%s: cannot be read: %s: start without it", number ? HANDOVER_VARIABLE : "--adopt",
			  handover_explain(error));
	return error;
}

struct handover_queue *handover_find(struct handover *handover, uint16_t number)
{
	for (unsigned int i = 0; i < handover->count; i++)
		if (handover->queues[i].queue.queue == number)
			return &handover->queues[i];
	return NULL;
}

/* ---- what became of it ---- */

void handover_tell_changes(const struct handover_queue *old, const struct nq_queue *queue,
			   const struct nq_config *config)
{
	uint32_t changed = old->flags ^ config->flags;
	uint32_t maxlen = nq_maxlen_granted(queue);
	char text[256] = "";
	size_t used = 0;

	if (!old->options_known)
		return;
	if (old->copy_bytes != config->copy_bytes)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ", copy %u -> %u bytes", old->copy_bytes,
					 config->copy_bytes);
	if (old->maxlen != maxlen)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ", maxlen %u -> %u", old->maxlen, maxlen);
	if (changed & NQ_F_GSO)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ", gso %s",
					 config->flags & NQ_F_GSO ? "off -> on" : "on -> off");
	if (changed & NQ_F_FAIL_OPEN)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ", fail-open %s",
					 config->flags & NQ_F_FAIL_OPEN ? "off -> on" : "on -> off");
	if (used)
		log_warning("queue %u: options differ from before%s: packets that already wait keep their form",
			    old->queue.queue, text);
}

void handover_drop(struct handover_queue *queue)
{
	close(queue->queue.socket);
	if (queue->queue.status >= 0)
		close(queue->queue.status);
	queue->queue.socket = queue->queue.status = -1;
}

/* In order, as the options no longer ask for this queue. */
static void handover_close_queue(struct handover_queue *left)
{
	uint16_t number = left->queue.queue;
	struct nq_config config;
	struct nq_queue *queue;

	nq_config_init(&config, number);
	if (nq_adopt(&queue, &config, &left->queue) < 0) {
		handover_drop(left);
		return;
	}
	log_warning("queue %u: was left to us, but --queue does not name it: what waits is answered, and it is unbound",
		    number);
	if (nq_stop(queue) == 0)
		nq_run(queue, processor_noop.process, NULL);
	nq_close(queue);
}

void handover_close(struct handover *handover)
{
	for (unsigned int i = 0; i < handover->count; i++)
		if (handover->queues[i].queue.socket >= 0)
			handover_close_queue(&handover->queues[i]);
	free(handover->queues);
	handover->queues = NULL;
	handover->count = 0;
}
