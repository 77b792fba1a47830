/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * true.c - the shortest program: static, and it does nothing
 */
int main(void)
{
	return 0;
}
