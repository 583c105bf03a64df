/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The library's counters by name. */
#include "counters.h"

#include <stddef.h>

struct counters_field {
	const char *name;
	size_t offset;
	bool is_length; /* not known if only metadata is copied */
};

/* clang-format off */
#define FIELD(name)  { #name, offsetof(struct nq_counters, name), false }
#define LENGTH(name) { #name, offsetof(struct nq_counters, name), true }
/* clang-format on */

static const struct counters_field counters_fields[] = {
	FIELD(packets),		  LENGTH(bytes),	FIELD(gso_packets), FIELD(truncated_packets),
	LENGTH(max_packet_bytes), FIELD(receive_calls), FIELD(spin_calls),  FIELD(spin_receives),
	FIELD(send_calls),	  FIELD(verdicts),	FIELD(overruns),    FIELD(lost_ids),
	FIELD(verdict_errors),	  FIELD(flushed),	FIELD(malformed),
};

#define COUNTERS (sizeof(counters_fields) / sizeof(counters_fields[0]))

_Static_assert(COUNTERS * sizeof(uint64_t) == sizeof(struct nq_counters), "every counter has a name");

static const uint64_t *counters_at(const struct nq_counters *counters, const struct counters_field *field)
{
	return (const uint64_t *)(const void *)((const char *)counters + field->offset);
}

void counters_put_json(json_t *object, const struct nq_counters *counters, bool lengths_known)
{
	for (const struct counters_field *field = counters_fields; field < counters_fields + COUNTERS; field++) {
		bool known = lengths_known || !field->is_length;
		json_int_t value = (json_int_t)*counters_at(counters, field);
		json_object_set_new(object, field->name, known ? json_integer(value) : json_null());
	}
}

void counters_get_json(const json_t *object, struct nq_counters *counters)
{
	for (const struct counters_field *field = counters_fields; field < counters_fields + COUNTERS; field++) {
		uint64_t *counter = (uint64_t *)(void *)((char *)counters + field->offset);
		*counter = (uint64_t)json_integer_value(json_object_get(object, field->name));
	}
}

void counters_add(struct nq_counters *sum, const struct nq_counters *counters)
{
	uint64_t greatest = sum->max_packet_bytes;

	for (const struct counters_field *field = counters_fields; field < counters_fields + COUNTERS; field++) {
		uint64_t *counter = (uint64_t *)(void *)((char *)sum + field->offset);
		*counter += *counters_at(counters, field);
	}
	sum->max_packet_bytes = counters->max_packet_bytes > greatest ? counters->max_packet_bytes : greatest;
}
