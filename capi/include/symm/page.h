/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symm: what each rank of a group shows of itself to other programs of its user, for monitors
 * such as `symm top`.
 *
 * A page is a memfd of the rank's process, which only that process can write: look for links to
 * SYMM_PAGE_LINK among /proc/<pid>/fd, open one to read, and map it. The kernel lets no other
 * user in, and takes the page back with the process, however that ends.
 *
 * Load `magic` first (acquire), then all else by whole aligned words of 64 bits: each has one
 * writer, and is never half of one value and half of another. Times are those of
 * CLOCK_MONOTONIC. A page of another layout has another last character in its magic, and behind
 * it, as all have, the version of the library that writes it.
 */
#ifndef SYMM_PAGE_H
#define SYMM_PAGE_H

#include <stdint.h>

/** What the link of a page's descriptor leads to. */
#define SYMM_PAGE_LINK "/memfd:symm-page (deleted)"
/** First word of a page of this layout: "sympage" and the number of the layout. */
#define SYMM_PAGE_MAGIC UINT64_C(0x32656761706d7973)
/** Sleeping threads that a page has room for. */
#define SYMM_PAGE_WAITS 16
/** Collectives, and algorithms, that a page has room for. */
#define SYMM_PAGE_KINDS 32

/**
 * A thread that sleeps. Load `since_ns`, the rest and `since_ns` again, all with acquire. If
 * the two are equal, what lies between them is true.
 */
typedef struct {
  uint64_t since_ns; /**< 0: nobody sleeps here */
  int64_t peer;      /**< rank that is waited for; -1: any of several */
  char what[24];     /**< "allreduce", "barrier", "rendezvous" */
} symm_page_wait_t;

/** Counts as in symm_group_stats_t, except for `call` and its tag. */
typedef struct {
  /**
   * The collective that the rank is in, on GPUs the last that it issued: symm_collective_t + 1,
   * symm_algorithm_t + 1 << 8, its bytes << 16. 0: none.
   */
  uint64_t call;
  /**
   * How often `tag` was begun and ended to be written: an odd number says that it is half
   * written. Load this, the tag and this again, all with acquire. If both are equal and even,
   * the tag is whole.
   */
  uint64_t tag_changes;
  /** The tag of `call` (symm_collective_options_t.tag), in UTF-8; "": it has none. */
  char tag[64];
  /** By symm_collective_t. */
  struct {
    uint64_t calls;
    uint64_t bytes;
  } collectives[SYMM_PAGE_KINDS];
  /** By symm_algorithm_t. */
  uint64_t algorithms[SYMM_PAGE_KINDS];
  uint64_t signals_sent;
  uint64_t signals_taken;
  uint64_t waits;
  uint64_t failures;
} symm_page_counts_t;

/** A page, which lies at the beginning of the memfd. */
typedef struct {
  uint64_t magic;   /**< SYMM_PAGE_MAGIC once the rest has its meaning */
  uint64_t version; /**< symm_version() of the rank */
  uint64_t root;    /**< equal on all ranks of a group and of those that were made of it */
  uint64_t group;   /**< equal on all ranks of a group */
  int32_t rank;
  int32_t size;
  int64_t backend;  /**< symm_backend_t; -1 while the group is made */
  uint64_t made_ns; /**< when the page was made */
  char job[64];     /**< $SYMM_JOB, or "" */
  char name[64];    /**< of the group */
  uint64_t failure; /**< 0 until the group fails: symm_status_t << 32 | its rank + 1 */
  symm_page_counts_t counts;
  symm_page_wait_t sleeping[SYMM_PAGE_WAITS];
  char collective_names[SYMM_PAGE_KINDS][24]; /**< "?": none of that value */
  char algorithm_names[SYMM_PAGE_KINDS][24];  /**< "?": none of that value */
  int64_t pids[1]; /**< of all ranks, as seen by this one's process; 0: on another machine */
} symm_page_t;

/** What the link of the descriptor of a process's shares leads to. */
#define SYMM_SHARES_LINK "/memfd:symm-shares (deleted)"
/** First word of shares of this layout: "symshar" and the number of the layout. */
#define SYMM_SHARES_MAGIC UINT64_C(0x31726168736d7973)
/** Shares that a process has room for. */
#define SYMM_SHARES_ROWS 256
/** Kinds of a share. */
#define SYMM_SHARE_PUBLISHED 1
#define SYMM_SHARE_HELD 2

/**
 * A version that a process has published, or a lease that it holds. Load `changes`, the rest
 * and `changes` again, all with acquire: if both are equal and even, what lies between them is
 * true. A lease belongs to a version if both are of one exporter and block, and their ranges
 * overlap.
 */
typedef struct {
  uint64_t changes;
  uint64_t kind;        /**< SYMM_SHARE_PUBLISHED or SYMM_SHARE_HELD; 0: nothing is here */
  uint64_t exporter[2]; /**< a random number of the process that made the token */
  uint64_t block;       /**< of that process; of a bundle, its table */
  uint64_t offset;      /**< of the range in that block */
  uint64_t range;       /**< its bytes */
  uint64_t bytes;       /**< of the memory; of a bundle, those of all its pieces */
  uint64_t version;     /**< of a published one */
  int64_t exporter_pid; /**< as that process knows itself */
  uint64_t since_ns;    /**< when this process published it, or imported it */
  char name[104];       /**< of a published one, or the beginning of it; else "" */
} symm_share_t;

/**
 * What a process shares by tokens: a memfd of it, as a page is one of a rank, which is there
 * from the first import or publication on.
 */
typedef struct {
  uint64_t magic;    /**< SYMM_SHARES_MAGIC once the rest has its meaning */
  uint64_t version;  /**< symm_version() of the process */
  uint64_t left_out; /**< shares that were begun when there was no room, and have not ended */
  symm_share_t rows[SYMM_SHARES_ROWS];
} symm_shares_t;

/**
 * What symm run --trace reads. Each process has a file in the folder SYMM_TRACE, which holds
 * this and a ring of `room` calls. Call n, from 0 on, of the `calls` that were begun is the one
 * at n modulo `room`, if its `mark` is n + 1 and the process has ended.
 */
typedef struct {
  uint64_t magic;         /**< SYMM_TRACE_MAGIC */
  uint64_t version;       /**< symm_version() of the process */
  uint64_t calls;         /**< calls that were begun */
  uint64_t room;          /**< calls that the ring holds */
  int64_t to_realtime_ns; /**< add to a time of CLOCK_MONOTONIC to get CLOCK_REALTIME */
  int64_t rank;           /**< $SYMM_RANK */
  int64_t unused[18];
} symm_trace_t;

/** One call in the ring behind a symm_trace_t. */
typedef struct {
  uint64_t mark;     /**< the call's number + 1; 0 while the entry is written */
  uint64_t begin_ns; /**< by CLOCK_MONOTONIC */
  uint64_t end_ns;   /**< by CLOCK_MONOTONIC; 0: the process ended first */
  uint64_t bytes;
  char name[24];     /**< "put"; "sleep": the thread slept in the call before */
  char group[40];    /**< the name of the group */
  char tag[64];      /**< of a collective (symm_collective_options_t.tag), in UTF-8; "": none */
  int32_t rank;      /**< in the group; -1: none */
  int32_t size;      /**< of the group; -1: none */
  int32_t peer;      /**< -1: none */
  int32_t thread;    /**< as gettid() gives it */
  int32_t dtype;     /**< symm_dtype_t; 0: none */
  int32_t algorithm; /**< symm_algorithm_t; -1: none */
  int32_t failed;    /**< once the call has ended, 1: it failed */
  int32_t backend;   /**< symm_backend_t of the group; 0 if there is no group */
} symm_trace_call_t;

/** First word of a symm_trace_t of this layout: "symtrac" and the number of the layout. */
#define SYMM_TRACE_MAGIC UINT64_C(0x32636172746d7973)

#endif
