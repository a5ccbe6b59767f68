/* Conditions and reads beside changes (rules: conditions-at-the-devices, reads-rest-on-both-ends): what sends and reads see of a
 * device that moves between two topics, while owners die.
 *
 * What is modelled. One device, its partition D, and two topics x and y, each with a partition of its own. A client changes the
 * device's subscriptions one after another, and repeats each change until it is answered: D records it, x or y hears of it when
 * it is durable, and then it is answered. Senders send to x and y, which decide by what they have heard, and to the conditions
 * `x || y` and `x && !y`; others read whether D has the device in x. A condition goes to a coordinator C: C stores it, asks D, and
 * makes what D decides a record of its own. Questions and answers may arrive at any time later, again and again, or never. D and
 * C may crash at any step: memory is gone, and another owner begins with what is durable. That x or y is away for a while is that
 * they do nothing. From any state the world may calm down; then everything must be answered.
 *
 * Promise: some order of all changes, sends and reads, each between its beginning and its answer, explains what was seen. So a
 * device that swaps x for y is in one of them at each moment (G2), and one that leaves x before y is never in x alone (G3); and
 * what a send or a read has seen, each later one sees. `may` is the set of all states in which the orders that are still possible
 * may be. When it is empty, no order explains what was seen.
 *
 * What is abstracted away. A second device and its partition are decided alone, so they add nothing but waiting. Outboxes are
 * outbox.pml: here x and y apply what is durable at D, in order. A change and a crash of x or y are one record each. That a
 * sleeping owner says nothing that counts is takeover.pml.
 *
 * Left out: changes that are given up and take effect later (rule: deadlines-travel), the end of a message before its condition is
 * decided, and two changes of one device at once.
 *
 * Rules taken out by -D: AT_DEVICE (D decides at one moment; without it C asks x and y, as it did once), ANSWER_DECIDED (the sender
 * is answered when the condition is decided), ANSWER_DURABLE (and when that is durable), REPEAT_WAITS (a send that is repeated at
 * C's next owner waits like the first), TOPICS_HEARD (D's answer waits until x and y have heard of what it rests on), READ_WAITS (so
 * does the answer to a read), ASK_AGAIN (C asks again while D has not answered).
 */
#define CHANGES 3
#define OPERATIONS 2       /* conditions and reads, one after another */
#define SENDS 2            /* to a topic */
#define CRASHES 2
#define X 1
#define Y 2
#define BIT(i) (1 << (i))

/* The device's topics: sets of X and Y */
byte dTable = 0;           /* at D, in memory */
byte dDurable = 0;
byte heard = 0;            /* at x and y */

/* The change under way; `topic` is 0 where there is none */
byte topic = 0;
bool value = false;
byte changes = 0;

/* The condition or the read under way */
mtype = { none, either, butNot, read };
mtype kind = none;
byte operations = 0;
mtype = { open, resolving, resolved };
mtype c = open;            /* at C: the record that resolves the condition */
bool result = false;
bool asked = false;        /* a question may arrive at D */
bool saidNo = false;       /* answers that may arrive at C */
bool saidYes = false;
bool decided = false;      /* at D: a question waits with a decision */
bool decision = false;
byte unheard = 0;          /* what the decision waits for: topics */
bool unrecorded = false;     /* and D's record */
bool isAnswered = false;   /* the sender has its answer */
bool isSeen = false;       /* the outcome is there for everybody to see */
bool cCrashed = false;     /* since the condition was accepted */
#ifdef AT_DEVICE
byte told = 0;             /* the topics that have answered C, and their answers */
byte members = 0;
#endif

byte sends = 0;
byte crashes = 0;

/* For the promise: x and y, +4 where the change has taken effect, +8 where the operation has found "no" and +16 where "yes" */
int may = 0;
hidden byte i, s, steps;
hidden int next;

#define HOLDS(set) ((kind == either && (set) != 0) || (kind == butNot && (set) == X) || (kind == read && ((set) & X) != 0))

/* All that may have happened until now. Each step makes a state of a higher number. */
inline allow() {
  i = 0;
  do
  :: i < 24 ->
     s = i & 3;
     if
     :: (may & BIT(i)) && topic != 0 && !(i & 4) ->
        may = may | BIT((i & 24) + 4 + (value -> s | topic : s & ~topic))
     :: else -> skip
     fi;
     if
     :: (may & BIT(i)) && kind != none && i < 8 -> may = may | BIT(i + (HOLDS(s) -> 16 : 8))
     :: else -> skip
     fi;
     i++
  :: else -> break
  od;
  i = 0; s = 0
}

/* Of all states those remain for which `fits` holds of the number i, and become `becomes`; and things go on. */
#define KEEP(fits, becomes) \
  i = 0; next = 0; \
  do \
  :: i < 24 -> next = ((may & BIT(i)) && (fits) -> next | BIT(becomes) : next); i++ \
  :: else -> break \
  od; \
  may = next; next = 0; \
  assert(may != 0); \
  allow()

inline change(which) {
  topic = which; value = !(dDurable & which); changes++;
  printf("change of %d to %d\n", topic, value);
  allow()
}

inline record() {
  dTable = (value -> dTable | topic : dTable & ~topic);
  printf("D has %d in memory\n", dTable)
}

inline durable() {
  dDurable = dTable; unrecorded = false;
  printf("D: %d is durable\n", dDurable)
}

inline hear(which) {
  heard = (heard & ~which) | (dDurable & which); unheard = unheard & ~which;
  printf("topics have heard %d\n", heard)
}

inline answerChange() {
  printf("the change is answered\n");
  topic = 0;
  KEEP(i & 4, i - 4)
}

inline begin(what) {
  kind = what; operations++; asked = true;
  printf("begin: %e\n", what);
  allow()
}

inline decide() {
  decided = true; decision = HOLDS(dTable); unheard = dTable ^ heard; unrecorded = (dTable != dDurable);
#ifdef TOPICS_HEARD
  unheard = (kind != read -> 0 : unheard);
#endif
#ifdef READ_WAITS
  unheard = (kind == read -> 0 : unheard);
#endif
  printf("D decides %d\n", decision)
}

/* D's answer leaves: to C, or to who reads. */
inline say() {
  decided = false;
  if
  :: kind == read -> result = decision; see(); answer()
  :: else -> saidYes = saidYes || decision; saidNo = saidNo || !decision
  fi;
  decision = false
}

inline resolve(outcome) {
  c = resolving; result = outcome;
  printf("C resolves: %d\n", outcome)
}

inline see() {
  printf("the outcome is %d\n", result);
  isSeen = true;
  KEEP((i >> 3) == result + 1, i);
  finish()
}

inline answer() {
  printf("the operation is answered\n");
  isAnswered = true;
  KEEP(i >= 8, i);
  finish()
}

inline finish() {
  if
  :: isSeen && isAnswered ->
     kind = none; KEEP(true, i & 7);
     c = open; result = false; asked = false; saidNo = false; saidYes = false; decided = false; decision = false;
     unheard = 0; unrecorded = false; isAnswered = false; isSeen = false; cCrashed = false;
#ifdef AT_DEVICE
     told = 0; members = 0
#endif
  :: else -> skip
  fi
}

/* x or y decides a send of its own. */
inline send(which) {
  sends++;
  printf("send to %d, heard %d\n", which, heard);
  KEEP((i & which) == (heard & which), i)
}

inline crashD() {
  crashes++; dTable = dDurable; decided = false; decision = false; unheard = 0; unrecorded = false;
  printf("D has another owner and %d\n", dTable)
}

inline crashC() {
  crashes++; c = (c == resolving -> open : c); result = (c == resolved -> result : false); cCrashed = true; asked = true;
  printf("C has another owner\n");
#ifdef AT_DEVICE
  told = 0; members = 0
#endif
}

#define ISCONDITION (kind == either || kind == butNot)
#ifdef AT_DEVICE
#define MAYDECIDE (kind == read && !decided)
#else
#define MAYDECIDE (kind != none && asked && !decided && (kind == read || c == open))
#endif
#define MAYSAY (decided && unheard == 0 && !unrecorded)
#define MAYANSWERCHANGE (topic != 0 && (dDurable & topic) == (value -> topic : 0) && (heard & topic) == (dDurable & topic) && \
                         dTable == dDurable)
#ifdef ANSWER_DECIDED
#define MAYANSWER true
#else
#ifdef ANSWER_DURABLE
#define MAYANSWER (c != open)
#else
#ifdef REPEAT_WAITS
#define MAYANSWER (c == resolved || cCrashed)
#else
#define MAYANSWER (c == resolved)
#endif
#endif
#endif

/* Whatever was said is lost, and everybody goes on. */
inline calmDown() {
  printf("calm\n");
  asked = false; saidNo = false; saidYes = false; steps = 0;
  do
  :: steps < 16 ->
     if
     :: topic != 0 && (dTable & topic) != (value -> topic : 0) -> record()
     :: else -> skip
     fi;
     if
     :: dTable != dDurable -> durable()
     :: else -> skip
     fi;
     if
     :: (dDurable & X) != (heard & X) -> hear(X)
     :: else -> skip
     fi;
     if
     :: (dDurable & Y) != (heard & Y) -> hear(Y)
     :: else -> skip
     fi;
     if
     :: MAYANSWERCHANGE -> answerChange()
     :: else -> skip
     fi;
#ifndef ASK_AGAIN
     asked = true;
#endif
     if
     :: MAYSAY -> say()
     :: !MAYSAY && (kind == read || asked) && MAYDECIDE -> decide()
     :: else -> skip
     fi;
     if
     :: ISCONDITION && c == open && saidYes -> resolve(true)
     :: ISCONDITION && c == open && saidNo && !saidYes -> resolve(false)
     :: else -> skip
     fi;
     if
     :: c == resolving -> c = resolved; see()
     :: else -> skip
     fi;
     if
     :: c == resolved && !isAnswered -> answer()
     :: else -> skip
     fi;
     steps++
  :: else -> break
  od;
  steps = 0;
  assert(topic == 0 && kind == none)
}

active proctype world() {
  if
  :: dTable = 0
  :: dTable = X
  :: dTable = Y
  :: dTable = X | Y
  fi;
  d_step { dDurable = dTable; heard = dTable; may = BIT(dTable) };
  do
  :: d_step { topic == 0 && changes < CHANGES -> change(X) }
  :: d_step { topic == 0 && changes < CHANGES -> change(Y) }
  :: d_step { topic != 0 && dTable == dDurable && (dTable & topic) != (value -> topic : 0) -> record() }
  :: d_step { dTable != dDurable -> durable() }
  :: d_step { (dDurable & X) != (heard & X) -> hear(X) }
  :: d_step { (dDurable & Y) != (heard & Y) -> hear(Y) }
  :: d_step { MAYANSWERCHANGE -> answerChange() }
  :: d_step { kind == none && operations < OPERATIONS -> begin(either) }
  :: d_step { kind == none && operations < OPERATIONS -> begin(butNot) }
  :: d_step { kind == none && operations < OPERATIONS -> begin(read) }
  :: d_step { MAYDECIDE -> decide() }
  :: d_step { MAYSAY -> say() }
#ifdef AT_DEVICE
  :: d_step { ISCONDITION && c == open && !(told & X) -> told = told | X; members = members | (heard & X) }
  :: d_step { ISCONDITION && c == open && !(told & Y) -> told = told | Y; members = members | (heard & Y) }
  :: d_step { ISCONDITION && c == open && told == (X | Y) -> resolve(HOLDS(members)) }
#endif
  :: d_step { ISCONDITION && c == open && saidYes -> resolve(true) }
  :: d_step { ISCONDITION && c == open && saidNo -> resolve(false) }
  :: d_step { c == resolving -> c = resolved; see() }
  :: d_step { ISCONDITION && !isAnswered && MAYANSWER -> answer() }
  :: d_step { sends < SENDS -> send(X) }
  :: d_step { sends < SENDS -> send(Y) }
  :: d_step { crashes < CRASHES -> crashD() }
  :: d_step { crashes < CRASHES && ISCONDITION -> crashC() }
#ifdef AT_DEVICE
  :: break
#else
  :: d_step { skip; calmDown() } -> break
#endif
  od
}
