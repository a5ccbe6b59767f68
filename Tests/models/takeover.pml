/* Takeover (design 3.5, 5.1, 5.4): node 0 owns a partition, node 1 takes it. Node 0 may sleep anywhere and wake at any time.
 *
 * The database does each statement at once (atomic); what a node believes is older. Replies of appends may be lost.
 * Rules taken out by -D: UNFENCED_APPEND (an append does not look at its session), TAKE_WITHOUT_FENCE (a partition is taken
 * while its owner's session lives), UNFENCED_SNAPSHOT (a snapshot is written without looking at session and owner),
 * SUCCESS_ON_UNKNOWN (a lost reply is answered as success).
 *
 * That places are taken once is not enough: the new owner frees old places when it compacts, and a sleeper's append would find
 * one free.
 */
#define SLOTS 5
#define NOBODY 9

bool alive[2] = true;      /* sessions */
byte owner = 0;            /* the partition's row */
byte epoch = 1;
byte slot[SLOTS];          /* who wrote each record: node + 1; 0 is free */
bool isBarrier[SLOTS];
byte last = 0;             /* records in the journal */
byte barrier = NOBODY;     /* where the second epoch began */
byte covering = 0;         /* the newest snapshot: what it covers, and what its writer had folded */
byte folded = 0;
byte answered = 0;         /* the highest record that was answered as success by node 0 */
bool isServing = false;

inline append(node, expected, outcome) {
  atomic {
    outcome = 0;           /* 0 fenced or taken, 1 in */
#ifndef UNFENCED_APPEND
    if
    :: !alive[node] -> skip
    :: else ->
#endif
       if
       :: expected < SLOTS && slot[expected] == 0 ->
          slot[expected] = node + 1; outcome = 1;
          last = (expected + 1 > last -> expected + 1 : last);
          /* Nothing of the former owner goes in after the next one has taken the partition. */
          assert(!(node == 0 && barrier != NOBODY))
       :: else -> skip
       fi
#ifndef UNFENCED_APPEND
    fi
#endif
  }
}

/* The former owner: appends, answers, writes a snapshot of what it has folded; with a pause possible between any two steps. */
active proctype former() {
  byte next = 0, outcome = 0, mine = 0;
  do
  :: next < 2 ->
     append(0, next, outcome);
     if
     :: outcome == 1 ->
        if
        :: true -> mine = next + 1; answered = mine        /* the reply came */
        :: true ->                                          /* the reply is lost */
#ifdef SUCCESS_ON_UNKNOWN
           answered = next + 1;
#endif
           break
        fi;
        next = next + 1
     :: else ->
#ifdef SUCCESS_ON_UNKNOWN
        answered = next + 1;                                /* it says so although it knows nothing */
#endif
        break
     fi
  :: mine > 0 ->
     /* What it has folded, with a record that was refused on top, is what a sleeper would put into a snapshot. */
     atomic {
#ifdef UNFENCED_SNAPSHOT
       covering = next + 1; folded = next + 1
#else
       if
       :: alive[0] && owner == 0 && mine <= last -> covering = mine; folded = mine
       :: else -> skip
       fi
#endif
     };
     break
  :: break
  od
}

active proctype heir() {
  byte read = 0, next = 0, outcome = 0;
  atomic {
#ifndef TAKE_WITHOUT_FENCE
    alive[0] = false;                                       /* the fence: waits for what is in flight, which is atomic here */
#else
    skip
#endif
  };
  atomic {
    owner = 1; epoch = 2; barrier = last;
    slot[last] = 2; isBarrier[last] = true; last = last + 1
  };
  read = last - 1;
  /* Read: the newest snapshot, then the journal up to the barrier. */
  atomic {
    assert(covering <= barrier);                            /* a snapshot covers durable records of the past only */
    assert(folded == covering);
    assert(read == barrier);                                /* nothing before the barrier was missed */
    assert(answered <= barrier);                            /* what was answered is in what is read */
    isServing = true
  };
  next = last;
  append(1, next, outcome);
  assert(outcome == 1);                                     /* nobody else writes any more */
  /* Compaction frees old places. */
  atomic {
    next = 0;
    do
    :: next <= barrier -> slot[next] = 0; isBarrier[next] = false; next = next + 1
    :: else -> break
    od
  }
}
