/* Takeover (rule: checked-append, fence-before-take; decision 0014): node 0 owns a partition, the next owner takes it: node 1
 * after it has fenced node 0, or as the first that comes, node 0 with a new machine included, after node 0 has given the partition
 * up alive. Node 0 may sleep anywhere and wake at any time.
 *
 * Node 0 is a machine and the journal's writer. The machine offers records, up to two that are not settled yet; the writer
 * sends what waits as one batch, whose statement the database carries out at any time after that, and once more whenever the
 * writer asks again, because the reply was lost. Each record of a batch has a place of its own, and goes in where that place is
 * free, whatever became of the one before it. The machine may be lost at any time; then what waits is refused, and what was
 * sent is answered as unknown. The database does each statement at once (atomic); what a node believes is older.
 *
 * Rules taken out by -D: UNFENCED_APPEND (an append does not look at its session), TAKE_WITHOUT_FENCE (a partition is taken
 * while its owner's session lives), UNFENCED_SNAPSHOT (a snapshot is written without looking at session and owner),
 * SUCCESS_ON_UNKNOWN (a lost reply is answered as success), RELEASE_AT_ONCE (a lost machine's partition is given up past the
 * writer), RELEASE_IN_DOUBT (the writer drops what waits, and gives up before what it has sent is settled), KEEP_WAITING (what
 * waits at the loss of its machine, and is refused, is not dropped).
 *
 * That places are taken once is not enough: the new owner frees old places when it compacts, and a sleeper's append would find
 * one free. And of two records in flight the barrier takes the first one's place only.
 *
 * Left out: that an append demands to own the partition as well. It closes the same holes once more, but where the next owner is
 * node 0 itself.
 */
#define SLOTS 7
#define RECORDS 3          /* that node 0 offers */
#define NOBODY 9
#define BIT(place) (1 << (place))

bool alive[2] = true;      /* sessions */
byte owner = 0;            /* the partition's row */
byte slot[SLOTS];          /* whose each record is: 1 node 0's first machine's, 2 the next owner's; 0 is free */
byte last = 0;             /* records in the journal */
byte barrier = NOBODY;     /* where the second epoch began */
byte covering = 0;         /* the newest snapshot: what it covers, and what its writer had folded */
byte folded = 0;

/* Node 0 */
bool isServing = true;     /* its machine lives */
byte next = 0;             /* the place of the next record */
byte waiting = 0;          /* records that wait at the writer */
byte sent = 0;             /* and those in its batch, from place `first` on */
byte first = 0;
byte mine = 0;             /* what it knows to be in */
byte answered = 0;         /* up to where clients were answered that it is done */
byte refused = 0;          /* places of what was answered as not done */
hidden byte k, place;
bool isIn;                 /* all of the batch, by the reply */

#ifndef UNFENCED_APPEND
#define IS_LET_IN alive[0]
#else
#define IS_LET_IN true
#endif

/* The database carries the batch out. */
inline carryOut() {
  isIn = true; k = 0;
  do
  :: k < sent ->
     place = first + k;
     if
     :: !IS_LET_IN || slot[place] == 2 -> isIn = false       /* fenced, or taken */
     :: IS_LET_IN && slot[place] == 1 -> skip                /* it went in when it was sent before */
     :: IS_LET_IN && slot[place] == 0 ->
        slot[place] = 1;
        last = (place + 1 > last -> place + 1 : last);
        /* Nothing of a former machine goes in after the partition was taken. */
        assert(barrier == NOBODY);
        /* Nor what a client was told is not done, so that it sends it again. */
        assert((refused & BIT(place)) == 0)
     fi;
     k++
  :: else -> break
  od;
  k = 0
}

/* The machine is thrown away. */
inline lose() {
  isServing = false;
  k = 0;
  do
  :: k < waiting -> k++; refused = refused | BIT(next - k)
  :: else -> break
  od;
#ifndef KEEP_WAITING
#ifndef RELEASE_AT_ONCE
  waiting = 0;
#endif
#endif
  k = 0
}

#ifdef RELEASE_AT_ONCE
#define MAY_RELEASE true
#else
#ifdef RELEASE_IN_DOUBT
#define MAY_RELEASE (waiting == 0)
#else
#define MAY_RELEASE (waiting == 0 && sent == 0)
#endif
#endif

active proctype former() {
  do
  :: d_step { isServing && next < RECORDS && waiting + sent < 2 -> next++; waiting++ }
  :: d_step { sent == 0 && waiting > 0 -> sent = waiting; first = next - waiting; waiting = 0 }
  :: d_step { sent > 0 ->                                   /* the reply is lost: it asks again */
       carryOut();
#ifdef SUCCESS_ON_UNKNOWN
       answered = (isServing -> first + sent : answered)
#endif
     }
  :: d_step { sent > 0 ->                                   /* the reply comes */
       carryOut();
       if
       :: isServing && isIn -> mine = first + sent; answered = mine
       :: isServing && !isIn -> lose()
       :: else -> skip
       fi;
       sent = 0
     }
  :: d_step { isServing -> lose() }                         /* it could not confirm something, say */
  :: d_step { !isServing && owner == 0 && alive[0] && MAY_RELEASE -> owner = NOBODY }
  :: d_step { mine > 0 ->
       /* What it has folded, with a record that was refused on top, is what a sleeper would put into a snapshot. */
#ifdef UNFENCED_SNAPSHOT
       covering = mine + 1; folded = mine + 1
#else
       if
       :: alive[0] && owner == 0 && covering < mine -> covering = mine; folded = mine
       :: else -> skip
       fi
#endif
     }
  :: break                                                  /* it sleeps for ever, or was killed */
  od
}

active proctype heir() {
  byte read = 0;
  if
  :: owner == 0 ->
#ifndef TAKE_WITHOUT_FENCE
     alive[0] = false                                       /* the fence: waits for what is in flight, which is atomic here */
#else
     skip
#endif
  :: owner == NOBODY -> skip
  fi;
  d_step {
    owner = 1; barrier = last;
    slot[last] = 2; last = last + 1
  };
  read = last - 1;
  /* Read: the newest snapshot, then the journal up to the barrier. */
  d_step {
    assert(covering <= barrier);                            /* a snapshot covers durable records of the past only */
    assert(folded == covering);
    assert(read == barrier);                                /* nothing before the barrier was missed */
    assert(answered <= barrier)                             /* what was answered is in what is read */
  };
  d_step {
    assert(slot[last] == 0);                                /* nobody else writes any more */
    slot[last] = 2; last = last + 1
  };
  /* Compaction frees old places. */
  d_step {
    k = 0;
    do
    :: k <= barrier -> slot[k] = 0; k++
    :: else -> break
    od;
    k = 0
  }
}
