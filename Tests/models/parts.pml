/* Bounded records, and entries that are received in parts (rule: outbox-order): what one record of T makes for D may be longer
 * than any record of D. It goes with outbox.pml, which has histories, lost ends and answers, and entries of one item.
 *
 * What is modelled. T puts messages into its open record, up to a bound; the record becomes one entry of its outbox to D, with all
 * of its messages. At D each of them weighs more, by its targets, and D's records have a bound too. So D applies an entry in as many
 * records as it needs, of which two may be in flight; its mark says how many of the items of the next entry it has applied. D may
 * crash at any time: what is in flight is in, from the first on, or is not, and another owner goes on from the journal. T offers
 * what is not acknowledged, and what it has offered once may arrive at any time later, any number of times. From any state the
 * world may calm down; then D must have each message once.
 *
 * Rules taken out by -D: RECORD_BOUND (a record of T that is full is closed before anything is added), PARTS (an entry that does not
 * fit into one record is applied in parts), PART_IN_MARK (how far a part has come stands in the mark, and so in the journal),
 * WHOLE_ACKNOWLEDGED (an entry is acknowledged when its last part is durable).
 *
 * Left out: crashes of T, and that bytes of offers and of what waits for room are bounded.
 */
#define RECORD_T 5         /* bytes of T's record; a message is one */
#define RECORD_D 4         /* and of D's; there each is two */
#define WEIGHT 2
#define MESSAGES 7
#define ENTRIES 3
#define CRASHES 2
#define PLACE(entry, item) ((entry) * MESSAGES + (item))

/* T */
byte messages = 0;
byte open = 0;             /* messages in the open record */
byte entries = 0;
byte size[ENTRIES + 1];
byte acknowledged = 0;
byte offered = 0;          /* the highest entry that was ever offered */

/* D: what is durable, what is applied in memory, and the records in flight between the two */
byte number = 0;
byte part = 0;
byte inNumber = 0;
byte inPart = 0;
chan flight = [2] of { byte, byte, byte };   /* the entry, its first item, and up to which */
byte crashes = 0;
bool has[(ENTRIES + 1) * MESSAGES];          /* durable */

hidden byte i, e, from, upTo;

inline closeRecord() {
  /* What cannot be written is not made of what clients are answered. */
  assert(open <= RECORD_T);
  entries++; size[entries] = open; open = 0;
  printf("T makes entry %d of %d messages\n", entries, size[entries])
}

#define IS_NEXT(entry) (entry == inNumber + 1 && entry <= offered && len(flight) < 2)

/* D applies what fits into a record of the entry that follows its mark. */
inline apply() {
  e = inNumber + 1; from = inPart;
#ifndef PARTS
  upTo = from + RECORD_D / WEIGHT;
  upTo = (upTo > size[e] -> size[e] : upTo);
#else
  upTo = size[e];
#endif
  if
  :: (upTo - from) * WEIGHT <= RECORD_D ->
     printf("D applies of entry %d: %d to %d\n", e, from, upTo);
     flight ! e, from, upTo;
     inPart = (upTo == size[e] -> 0 : upTo);
     inNumber = (upTo == size[e] -> e : inNumber)
  :: else -> crash()                                     /* the record is too long: its machine is lost */
  fi
}

inline durable() {
  flight ? e, from, upTo;
  printf("D: of entry %d up to %d is durable\n", e, upTo);
  i = from;
  do
  :: i < upTo ->
     assert(!has[PLACE(e, i)]);                          /* nothing twice */
     assert(i == 0 || has[PLACE(e, i - 1)]);             /* in order */
     has[PLACE(e, i)] = true;
     i++
  :: else -> break
  od;
#ifndef PART_IN_MARK
  part = (upTo == size[e] -> 0 : upTo);
#endif
  number = (upTo == size[e] -> e : number);
  i = 0
}

/* What is in flight is not in. */
inline crash() {
  printf("D has another owner\n");
  do
  :: len(flight) > 0 -> flight ? _, _, _
  :: len(flight) == 0 -> break
  od;
  inNumber = number; inPart = part
}

inline acknowledge() {
#ifndef WHOLE_ACKNOWLEDGED
  acknowledged = number
#else
  acknowledged = (part > 0 -> number + 1 : number)
#endif
}

inline calmDown() {
  printf("calm\n");
  crashes = 0;
  offered = 0;                                           /* what was offered is gone; T offers what it still has */
  do
  :: crashes < 2 * ENTRIES * MESSAGES ->
     if
     :: len(flight) > 0 -> durable()
     :: len(flight) == 0 && acknowledged < number -> acknowledge()
     :: len(flight) == 0 && acknowledged >= number && inNumber >= acknowledged && inNumber < entries ->
        offered = inNumber + 1;
        apply()
     :: else -> skip
     fi;
     crashes++
  :: else -> break
  od;
  e = 1;
  do
  :: e <= entries ->
     from = 0;
     do
     :: from < size[e] -> assert(has[PLACE(e, from)]); from++
     :: else -> break
     od;
     e++
  :: else -> break
  od;
  e = 0; from = 0
}

#ifndef RECORD_BOUND
#define MAY_ADD (open < RECORD_T)
#else
#define MAY_ADD true
#endif

active proctype world() {
  do
  :: d_step { messages < MESSAGES && entries < ENTRIES && MAY_ADD -> messages++; open++ }
  :: d_step { open > 0 && entries < ENTRIES -> closeRecord() }
  :: d_step { offered < entries && acknowledged <= offered -> offered++ }
  :: d_step { IS_NEXT(inNumber + 1) -> apply() }
  :: d_step { len(flight) > 0 -> durable() }
  :: d_step { crashes < CRASHES -> crashes++; crash() }
  :: d_step { acknowledged != number || part > 0 -> acknowledge() }
  :: d_step { skip; calmDown() } -> break
  od
}
