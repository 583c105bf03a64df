/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The reader of /proc/net/netfilter/nfnetlink_queue: the right line, whatever its place in a file of any size. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "../../src/libnq/internal.h"

static struct nq_status status;

/* A file like the kernel's with `count` queues, numbers 10, 11, ... */
static int make_file(unsigned int count)
{
	FILE *file = tmpfile();
	assert_non_null(file);
	for (unsigned int i = 0; i < count; i++)
		fprintf(file, "%5u %6u %5u %1u %5u %5u %5u %8u %2d\n", 10 + i, 4000 + i, i, 2u, 65531u, i + 1, i + 2,
			i + 3, 1);
	fflush(file);
	int fd = dup(fileno(file));
	assert_true(fd >= 0);
	fclose(file);
	return fd;
}

static void every_line_is_found_with_its_fields(void **state)
{
	const unsigned int count = 500; /* several times the reader's buffer */
	int fd = make_file(count);

	for (unsigned int i = 0; i < count; i++) {
		assert_int_equal(nq_status_find(fd, (uint16_t)(10 + i), &status), 0);
		assert_int_equal(status.portid, 4000 + i);
		assert_int_equal(status.waiting, i);
		assert_int_equal(status.copy_mode, 2);
		assert_int_equal(status.copy_bytes, 65531);
		assert_int_equal(status.dropped, i + 1);
		assert_int_equal(status.user_dropped, i + 2);
		assert_int_equal(status.id_sequence, i + 3);
	}
	close(fd);
}

static void absent_queue_is_not_found(void **state)
{
	int fd = make_file(100);

	assert_int_equal(nq_status_find(fd, 9, &status), -ENOENT);
	assert_int_equal(nq_status_find(fd, 1, &status), -ENOENT); /* a prefix of 10 */
	assert_int_equal(nq_status_find(fd, 110, &status), -ENOENT);
	close(fd);
	fd = make_file(0);
	assert_int_equal(nq_status_find(fd, 0, &status), -ENOENT);
	close(fd);
}

static void line_of_another_shape_is_not_taken(void **state)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	fprintf(file, "7 1 2 3\n7 a b c d e f g 1\n");
	fflush(file);
	assert_int_equal(nq_status_find(fileno(file), 7, &status), -ENOENT);
	fprintf(file, "    7  1     2 1     0     0     4294967295 4294967295  1\n");
	fflush(file);
	assert_int_equal(nq_status_find(fileno(file), 7, &status), 0);
	assert_int_equal(status.user_dropped, UINT32_MAX);
	assert_int_equal(status.id_sequence, UINT32_MAX);
	fclose(file);
}

static void endless_line_is_an_error_and_no_loop(void **state)
{
	FILE *file = tmpfile();

	assert_non_null(file);
	for (int i = 0; i < 10000; i++)
		fputc('1', file);
	fflush(file);
	assert_int_equal(nq_status_find(fileno(file), 1, &status), -ENOENT);
	fclose(file);
}

static void closed_file_is_an_error(void **state)
{
	assert_int_equal(nq_status_find(-1, 0, &status), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_line_is_found_with_its_fields),
		cmocka_unit_test(absent_queue_is_not_found),
		cmocka_unit_test(line_of_another_shape_is_not_taken),
		cmocka_unit_test(endless_line_is_an_error_and_no_loop),
		cmocka_unit_test(closed_file_is_an_error),
	};
	return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
