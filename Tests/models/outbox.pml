/* Outboxes with marks and histories (rule: devices-decide, outbox-order, proven-answers): D tells T who is subscribed, by
 * entries in order, each once.
 *
 * What is modelled. D writes records one after another; the record of a change is an entry of its outbox to T, whose number is
 * the record's sequence (a new owner's barrier takes a sequence too, so numbers have gaps), and which names the entry before it.
 * T applies an entry by a record of its own. Either end may crash at any step: the record in flight is in or is not, memory is
 * gone, another owner begins. Either engine may lose the end of a journal: whatever was written last there never was. The network
 * is the worst there is: what was ever said may arrive at any time later, any number of times, in any order, or never, so it is
 * no queue but the set of what was said: `offered` for entries, `said` for marks. From any state the world may calm down: nobody
 * crashes any more, the newest messages arrive; then both ends must come to agree.
 *
 * What is abstracted away. A change adds one member, so sets are bit masks over changes, and D's list is the set of its changes.
 * One record is in flight at a time and holds one change. Clients are answered as early as the rules let them. A crash and the
 * takeover after it are one step, because in between an end only keeps silent; that a sleeping owner writes nothing more is
 * takeover.pml, and what it may still say is what may arrive late anyway. Owners of an end are numbered by `life`, which no
 * engine can lose (in the world: a random number for each; which of two is newer is known from their connections). Numbers of
 * histories rise. The repair is one entry, not slices.
 *
 * What is not covered. Fan-outs from T to D are the same stream with other contents; after a loss no list repairs them. A journal
 * that loses its end under an owner that goes on (the engine has to notice: another timeline). Full windows and other bounds. Two
 * lost ends in one run: with LOSSES 2 there is a hole, in which a repair that the second loss took comes late and takes out of T,
 * until the next repair, a change that was answered; T would have to refuse what former owners of D have offered.
 *
 * Rules taken out by -D: PREDECESSOR (only the entry that follows the mark is applied), DURABLE_MARK (what is acknowledged is the
 * durable mark), OFFER_AFTER_DURABLE, ASK_MARKS (a new owner asks for the mark), PROOF (an answer waits for T's mark),
 * NEW_HISTORY (a lost end is noticed, and the pair begins again from D's list), NEWER_LIFE (what a former owner of T has said is
 * worth nothing once a newer one was heard), WRITER (a number goes with the life that wrote it; after a loss it names two else).
 */
#define CHANGES 3          /* that clients ask for */
#define CRASHES 3          /* of both ends together, lost ends of journals among them */
#define LOSSES 1
#define LIVES 4            /* 1 + CRASHES */
#define IDS 6              /* changes and repairs, from 1; 0 is none */
#define HAS(set, id) (((set) >> (id)) & 1)
#define BIT(id) (1 << (id))

/* Entries, in the order in which they were written first. */
byte ids = 0;
byte changes = 0;
byte number[IDS];
byte follows[IDS];         /* the entry before */
byte history[IDS];
byte before[IDS];          /* D's list before it; for a repair, the list that it tells */
byte repairs = 0;          /* which are repairs */

/* D */
byte dLength = 0;          /* durable records */
byte dIn = 0;              /* the entries among them */
byte dFlight = 0;
byte dHistory = 1;
byte dMark = 0;            /* what T is known to have */
byte dNoted = 0;           /* what the journal says of that */
byte dOther = 0;           /* the newest life of T that was heard by this owner; 0 while none was */
byte dAnew = 0;            /* a loss was noticed: the history to begin */
bool dSpoke = false;       /* this owner has asked or offered, so T says something to it */

/* T */
byte tLife = 1;
byte tLength = 0;
byte tJournal[IDS];        /* the entry that each record applied */
bool tFlight = false;      /* whether the last of them is not durable yet */
byte tMark = 0;
byte tSet = 0;

/* Between them */
byte offered = 0;
byte said[LIVES + 1];      /* by life of T: the marks that it has told the present owner of D */

/* For the properties alone */
byte crashes = 0;
byte losses = 0;
byte wasDurable = 0;       /* at D, at some time */
byte answered = 0;
byte excused = 0;          /* changes that an engine has lost at either end */
hidden byte i, k, set, mark;

#define LIST (dIn & ~repairs)
#define IS_OURS(id) (HAS(dIn, id) && history[id] == dHistory)
#define HISTORY_OF(id) (id == 0 -> 1 : history[id])

/* T's mark and set by its first `length` records. */
inline foldT(length) {
  set = 0; mark = 0; i = 0;
  do
  :: i < length ->
     mark = tJournal[i];
     set = (HAS(repairs, mark) -> before[mark] : set | BIT(mark));
     i++
  :: else -> break
  od
}
#define DURABLE_T (tLength - tFlight)

/* D can hear this of T from now on. */
inline tell() {
#ifndef DURABLE_MARK
  foldT(DURABLE_T);
#else
  foldT(tLength);
#endif
  said[tLife] = (dSpoke -> said[tLife] | BIT(mark) : said[tLife])
}

/* What was answered is durable at both ends, but for what an engine has lost. */
inline checkAnswered() {
  foldT(DURABLE_T);
  assert((answered & ~excused & ~LIST) == 0);
  assert((answered & ~excused & ~set) == 0)
}

inline answer() {
  k = 1;
  do
  :: k < IDS ->
#ifndef PROOF
     answered = (HAS(LIST, k) && k <= dMark -> answered | BIT(k) : answered);
#else
     answered = (HAS(LIST, k) -> answered | BIT(k) : answered);
#endif
     k++
  :: else -> break
  od;
  checkAnswered()
}

/* D offers all that is durable and not acknowledged. */
inline offer() {
  k = dMark + 1;
  do
  :: k < IDS ->
#ifndef OFFER_AFTER_DURABLE
     offered = (IS_OURS(k) -> offered | BIT(k) : offered);
     dSpoke = dSpoke || IS_OURS(k);
#else
     offered = (IS_OURS(k) || k == dFlight -> offered | BIT(k) : offered);
#endif
     k++
  :: else -> break
  od;
  tell()
}
#ifndef ASK_MARKS
#define MAY_OFFER (dOther != 0 && dAnew == 0)
#else
#define MAY_OFFER (dAnew == 0)
#endif

/* D writes a change, or the repair that begins a history. */
inline write(isRepair) {
  ids++;
  assert(ids < IDS);
  k = IDS - 1;
  do
  :: k > 0 && !IS_OURS(k) -> k--
  :: else -> break
  od;
  number[ids] = dLength + 1;
  before[ids] = LIST;
  if
  :: isRepair -> repairs = repairs | BIT(ids); dHistory = dAnew; dAnew = 0; dMark = 0
  :: else -> follows[ids] = k; changes++
  fi;
  history[ids] = dHistory;
  dFlight = ids;
  printf("D writes %d: number %d after %d, history %d, repair %d\n", ids, number[ids], follows[ids], dHistory, isRepair);
#ifdef OFFER_AFTER_DURABLE
  if
  :: MAY_OFFER -> offer()
  :: else -> skip
  fi
#endif
}

inline durableAtD() {
  printf("D: %d is durable\n", dFlight);
  dLength++; dIn = dIn | BIT(dFlight); wasDurable = wasDurable | BIT(dFlight); dFlight = 0;
  if
  :: MAY_OFFER -> offer(); answer()
  :: else -> skip
  fi
}

/* T's owner `life` says that its mark is `told`. */
inline hear(life, told) {
  printf("D hears from life %d of T: %d\n", life, told);
  mark = told;
#ifdef WRITER
  /* By its number alone: the entry of D's stream that has it, if one has. */
  k = IDS - 1;
  do
  :: k > 0 && !(IS_OURS(k) && history[k] == HISTORY_OF(mark) && number[k] == number[mark]) -> k--
  :: else -> break
  od;
  mark = (k != 0 -> k : mark);
#endif
  if
  :: !HAS(dIn, mark) && mark != 0 && history[mark] >= dHistory ->
     /* T has what D never wrote, as far as D knows: D's journal has lost its end. */
#ifndef NEW_HISTORY
     dAnew = history[mark] + 1
#else
     skip
#endif
  :: else ->
     mark = (HISTORY_OF(mark) < dHistory -> 0 : mark);
     if
     :: mark < dMark && life > dOther ->
        /* A newer owner of T has less than a former one had: T's journal has lost its end. */
#ifndef NEW_HISTORY
        dAnew = dHistory + 1
#else
        skip
#endif
     :: mark > dMark -> dMark = mark
     :: else -> skip
     fi
  fi;
  dOther = (life > dOther -> life : dOther);
  if
  :: MAY_OFFER -> offer(); answer()
  :: else -> skip
  fi
}
#ifndef NEWER_LIFE
#define MAY_HEAR(life, told) (HAS(said[life], told) && dAnew == 0 && life >= dOther)
#else
#define MAY_HEAR(life, told) (HAS(said[life], told) && dAnew == 0)
#endif

/* An entry comes to T. */
#ifdef PREDECESSOR
#define FITS(id) (number[id] > number[tMark])
#else
#ifdef WRITER
#define FITS(id) (number[follows[id]] == number[tMark])
#else
#define FITS(id) (follows[id] == tMark)
#endif
#endif
#define IS_ANEW(id) (HAS(repairs, id) && history[id] > HISTORY_OF(tMark))
#define IS_NEXT(id) (!HAS(repairs, id) && history[id] == HISTORY_OF(tMark) && FITS(id))
#define MAY_RECEIVE(id) (HAS(offered, id) && !tFlight && tLength < IDS && (IS_ANEW(id) || IS_NEXT(id)))

inline receive(id) {
  printf("T applies %d\n", id);
  assert(HAS(wasDurable, id));                           /* no effect of what is not durable at D */
  assert(HAS(repairs, id) || tSet == before[id]);        /* nothing twice, skipped, or out of order */
  tSet = (HAS(repairs, id) -> before[id] : tSet | BIT(id));
  tMark = id; tJournal[tLength] = id; tLength++; tFlight = true;
  tell()
}

inline durableAtT() {
  printf("T: %d is durable\n", tMark);
  tFlight = false;
  tell()
}

/* Another owner of D: it has what is durable, and puts a barrier. It asks T; answers to former owners are none to it. */
inline takeD() {
  printf("D has another owner and %d records\n", dLength);
  crashes++;
#ifndef OFFER_AFTER_DURABLE
  /* Nobody has seen what was in flight, so its id may be used again. */
  if
  :: dFlight != 0 ->
     number[ids] = 0; follows[ids] = 0; history[ids] = 0; before[ids] = 0; repairs = repairs & ~BIT(ids); ids--
  :: else -> skip
  fi;
#endif
  dFlight = 0; dOther = 0; dAnew = 0; dHistory = 1; k = 1;
  do
  :: k < IDS -> dHistory = (HAS(dIn, k) && history[k] > dHistory -> history[k] : dHistory); k++
  :: else -> break
  od;
  dNoted = (IS_OURS(dNoted) -> dNoted : 0);
  dMark = dNoted;
  dLength++;
  k = 1;
  do
  :: k <= LIVES -> said[k] = 0; k++
  :: else -> break
  od;
#ifndef ASK_MARKS
  dSpoke = true;
  tell();
#else
  dSpoke = false;
  offer();
#endif
  checkAnswered()
}

inline takeT() {
  printf("T has another owner and %d records\n", DURABLE_T);
  crashes++; tLife++; tLength = DURABLE_T; tFlight = false; tJournal[tLength] = 0;
  foldT(tLength);
  tMark = mark; tSet = set;
  tell();
  checkAnswered()
}

/* Records above `length` never were. */
inline loseD(length) {
  losses++; k = 1;
  do
  :: k < IDS ->
     if
     :: HAS(dIn, k) && number[k] > length -> dIn = dIn & ~BIT(k); excused = excused | BIT(k)
     :: else -> skip
     fi;
     k++
  :: else -> break
  od;
  dLength = length;
  takeD()
}

inline loseT(length) {
  losses++;
  foldT(tLength); k = set;
  foldT(length);
  excused = excused | (k & ~set);
  do
  :: tLength > length -> tLength--; tJournal[tLength] = 0
  :: else -> break
  od;
  tFlight = false;
  takeT()
}

inline hearNewest() {
  tell();
  k = mark;
  if
  :: MAY_HEAR(tLife, k) -> hear(tLife, k)
  :: else -> skip
  fi
}

/* Only what is offered and told now arrives. Twice, because at first D may learn that an end was lost. */
inline calmDown() {
  printf("calm\n");
  if
  :: dFlight != 0 -> durableAtD()
  :: else -> skip
  fi;
  if
  :: tFlight -> durableAtT()
  :: else -> skip
  fi;
  crashes = 0;
  do
  :: crashes < 2 ->
     offered = 0;
     if
     :: MAY_OFFER -> offer()
     :: else -> skip
     fi;
     hearNewest();
     if
     :: dAnew != 0 -> write(true); durableAtD(); hearNewest()
     :: else -> skip
     fi;
     changes = 1;
     do
     :: changes < IDS ->
        if
        :: MAY_RECEIVE(changes) -> receive(changes); durableAtT(); hearNewest()
        :: else -> skip
        fi;
        changes++
     :: else -> break
     od;
     crashes++
  :: else -> break
  od;
  assert(tSet == LIST)
}

/* What happens is picked and then done, so that what is done stands in the model once. */
#define HEAR(life, told) :: MAY_HEAR(life, told) -> pick = 8 * life + told
#define RECEIVE(id)      :: MAY_RECEIVE(id) -> pick = id
#define LOSE_D(length)   :: crashes < CRASHES && losses < LOSSES && dLength > length -> pick = length
#define LOSE_T(length)   :: crashes < CRASHES && losses < LOSSES && DURABLE_T > length -> pick = length

active proctype world() {
  byte pick = 0;
  d_step { skip; dSpoke = true; tell() };
  do
  :: d_step { dFlight == 0 && dAnew == 0 && changes < CHANGES -> write(false) }
  :: d_step { dFlight == 0 && dAnew != 0 -> write(true) }
  :: d_step { dFlight != 0 -> durableAtD() }
  :: d_step { dNoted != dMark && dFlight == 0 -> dNoted = dMark }
  :: atomic {
       if
       HEAR(1, 0) HEAR(1, 1) HEAR(1, 2) HEAR(1, 3) HEAR(1, 4) HEAR(1, 5)
       HEAR(2, 0) HEAR(2, 1) HEAR(2, 2) HEAR(2, 3) HEAR(2, 4) HEAR(2, 5)
       HEAR(3, 0) HEAR(3, 1) HEAR(3, 2) HEAR(3, 3) HEAR(3, 4) HEAR(3, 5)
       HEAR(4, 0) HEAR(4, 1) HEAR(4, 2) HEAR(4, 3) HEAR(4, 4) HEAR(4, 5)
       fi;
       skip;
       d_step { hear(pick / 8, pick % 8); pick = 0 }
     }
  :: atomic {
       if
       RECEIVE(1) RECEIVE(2) RECEIVE(3) RECEIVE(4) RECEIVE(5)
       fi;
       skip;
       d_step { receive(pick); pick = 0 }
     }
  :: d_step { tFlight -> durableAtT() }
  /* Crashes: what is in flight is in (a crash after it became durable), or is not. */
  :: d_step { crashes < CRASHES -> takeD() }
  :: d_step { crashes < CRASHES -> takeT() }
  :: atomic {
       if
       LOSE_D(0) LOSE_D(1) LOSE_D(2) LOSE_D(3) LOSE_D(4)
       fi;
       skip;
       d_step { loseD(pick); pick = 0 }
     }
  :: atomic {
       if
       LOSE_T(0) LOSE_T(1) LOSE_T(2) LOSE_T(3)
       fi;
       skip;
       d_step { loseT(pick); pick = 0 }
     }
  :: d_step { skip; calmDown() } -> break
  od
}
