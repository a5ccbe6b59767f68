/* The window of pushes (rule: catch-up-before-live): a partition pushes to the streams of one gateway, and cuts them off when
 * the gateway confirms too little. It goes with streams.pml, which has one device, takeovers and lost frames, and no bounds.
 *
 * What is modelled. Two devices listen at one gateway, each on one connection. Messages are for one of them or both; one push has
 * all targets that are live, and counts against the window until the gateway confirms it. When the window is full all live
 * streams are cut off, and they come back one by one when there is room: the partition sends what was missed since its last
 * push, and what comes from then on. The gateway keeps for each stream what it has written only while that is not live: from a
 * push to anyone it infers that every live stream has everything up to there. A stream may be full; then the gateway says that it
 * fell behind, hears nothing more for it until it has drained, and says so. The link is ordered in each direction and as slow as
 * it likes. From any state the world may calm down: everything comes; then both devices must have all that is in the log.
 *
 * Rules taken out by -D: SAY_CUT_OFF (a cut-off is said in the ordered link, by name), FELL_BEHIND (who falls behind is not cut
 * off any more, and a live stream that says it has drained is read for), EVENTS_AFTER (what was read from a position above what
 * a stream has written is not for it).
 *
 * Left out: lost frames, takeovers and acknowledgements; more than one portion; who comes to listen and goes.
 */
#define MESSAGES 4
#define WINDOW 2
#define FULLS 1
#define ROOM 5
#define BIT(device) (1 << (device))
#define HAS(set, device) (((set) >> (device)) & 1)

mtype = { push, events, cutOff };
mtype = { confirmed, fellBehind, drained };
chan down = [ROOM] of { mtype, byte, byte, byte };
chan up = [ROOM] of { mtype, byte, byte };

/* The partition */
byte log[MESSAGES + 1];    /* for whom each message is */
byte last = 0;
byte outstanding = 0;
byte newest = 0;           /* the position of its newest push */
#define LIVE 0
#define BEHIND 1
#define CUT 2
byte state[2];
byte base[2];              /* what a stream that is not live has */

/* The gateway */
byte placed = 3;           /* streams that it takes for live */
byte overfull = 0;
byte pushed = 0;           /* the newest push, to anyone */
byte written[2];
byte fulls = 0;

/* The devices */
byte got[2];

hidden byte d, i, p, q, kind, set;
#define WRITTEN(device) (HAS(placed, device) && pushed > written[device] -> pushed : written[device])

/* A position goes out on a device's connection. */
inline write(device, position) {
  assert(position > got[device]);                        /* in order, each once */
  i = got[device] + 1;
  do
  :: i < position -> assert(!HAS(log[i], device)); i++   /* nothing is skipped */
  :: else -> break
  od;
  i = 0;
  printf("device %d gets %d\n", device, position);
  got[device] = position
}

/* The stream is full with what it was to be written. */
inline fall(device, has) {
  printf("the stream of %d is full\n", device);
  overfull = overfull | BIT(device); placed = placed & ~BIT(device); written[device] = has; fulls++;
  up ! fellBehind(device, has)
}

inline catchUp(device, after) {
  printf("device %d is sent what is above %d, up to %d, and is live\n", device, after, last);
  down ! events(device, after, last);
  state[device] = LIVE
}

inline send(targets) {
  last++; log[last] = targets; set = 0; d = 0;
  do
  :: d < 2 -> set = (state[d] == LIVE -> set | BIT(d) : set); d++
  :: else -> break
  od;
  printf("message %d for %d; live are %d\n", last, targets, set);
  if
  :: (set & targets) == 0 -> skip
  :: (set & targets) != 0 && outstanding < WINDOW ->
     newest = last; outstanding++;
     down ! push(last, set & targets, 0)
  :: else ->
     printf("cut off: %d\n", set);
     d = 0;
     do
     :: d < 2 ->
        if
        :: state[d] == LIVE -> state[d] = CUT; base[d] = newest
        :: else -> skip
        fi;
        d++
     :: else -> break
     od;
#ifndef SAY_CUT_OFF
     down ! cutOff(set, 0, 0)
#endif
  fi;
  d = 0; set = 0
}

inline hear() {
  up ? kind, d, p;
  if
  :: kind == confirmed -> outstanding--
  :: kind == fellBehind ->
#ifndef FELL_BEHIND
     state[d] = BEHIND; base[d] = p
#else
     state[d] = (state[d] == LIVE -> BEHIND : state[d]); base[d] = p
#endif
  :: kind == drained ->
     if
     :: state[d] == BEHIND -> catchUp(d, base[d])
#ifndef FELL_BEHIND
     :: state[d] == LIVE -> down ! cutOff(BIT(d), 0, 0); catchUp(d, 0)
     :: state[d] == CUT -> skip
#else
     :: else -> skip
#endif
     fi
  fi;
  d = 0; p = 0; kind = 0
}

#ifndef EVENTS_AFTER
#define IS_FOR(device, after) (after <= WRITTEN(device) && !HAS(overfull, device))
#else
#define IS_FOR(device, after) (!HAS(overfull, device))
#endif

/* A frame comes to the gateway; `isFull` says that the first stream it writes takes nothing more. */
inline receive(isFull) {
  down ? kind, p, q, set;
  if
  :: kind == cutOff ->
     d = 0;
     do
     :: d < 2 ->
        if
        :: HAS(p, d) -> written[d] = WRITTEN(d); placed = placed & ~BIT(d)
        :: else -> skip
        fi;
        d++
     :: else -> break
     od
  :: kind == push ->
     d = 0; kind = isFull;
     do
     :: d < 2 ->
        if
        :: HAS(placed, d) && HAS(q, d) && kind -> kind = 0; fall(d, p - 1)
        :: HAS(placed, d) && HAS(q, d) && !kind -> write(d, p)
        :: else -> skip
        fi;
        d++
     :: else -> break
     od;
     pushed = p;
     up ! confirmed(0, 0)
  :: kind == events ->
     d = p;
     if
     :: IS_FOR(d, q) ->
        written[d] = WRITTEN(d); placed = placed & ~BIT(d);
        if
        :: isFull -> fall(d, written[d])
        :: else ->
           p = written[d] + 1;
           do
           :: p <= set ->
              if
              :: HAS(log[p], d) -> write(d, p)
              :: else -> skip
              fi;
              p++
           :: else -> break
           od;
           written[d] = (set > written[d] -> set : written[d]);
           placed = placed | BIT(d)
        fi
     :: else -> skip
     fi
  fi;
  d = 0; p = 0; q = 0; kind = 0; set = 0
}

inline drain(device) {
  printf("the stream of %d has drained\n", device);
  overfull = overfull & ~BIT(device);
  up ! drained(device, 0)
}

inline calmDown() {
  printf("calm\n");
  fulls = 0;
  do
  :: fulls < 24 ->
     if
     :: len(up) > 0 -> hear()
     :: len(up) == 0 && len(down) > 0 -> receive(false)
     :: len(up) == 0 && len(down) == 0 && overfull != 0 ->
        if
        :: HAS(overfull, 0) -> drain(0)
        :: else -> drain(1)
        fi
     :: len(up) == 0 && len(down) == 0 && overfull == 0 ->
        if
        :: state[0] == CUT && outstanding < WINDOW -> catchUp(0, base[0])
        :: state[0] != CUT && state[1] == CUT && outstanding < WINDOW -> catchUp(1, base[1])
        :: else -> skip
        fi
     fi;
     fulls++
  :: else -> break
  od;
  /* Both have everything, and both ends say that they are live. */
  p = 1;
  do
  :: p <= last ->
     assert(!HAS(log[p], 0) || got[0] >= p);
     assert(!HAS(log[p], 1) || got[1] >= p);
     p++
  :: else -> break
  od;
  assert(placed == 3 && state[0] == LIVE && state[1] == LIVE)
}

#define HAS_ROOM (len(down) <= ROOM - 2)

active proctype world() {
  do
  :: d_step { last < MESSAGES && HAS_ROOM -> send(1) }
  :: d_step { last < MESSAGES && HAS_ROOM -> send(2) }
  :: d_step { last < MESSAGES && HAS_ROOM -> send(3) }
  :: d_step { state[0] == CUT && outstanding < WINDOW && HAS_ROOM -> catchUp(0, base[0]) }
  :: d_step { state[1] == CUT && outstanding < WINDOW && HAS_ROOM -> catchUp(1, base[1]) }
  :: d_step { len(up) > 0 && HAS_ROOM -> hear() }
  :: d_step { len(down) > 0 && len(up) <= ROOM - 2 -> receive(false) }
  :: d_step { len(down) > 0 && len(up) <= ROOM - 2 && fulls < FULLS -> receive(true) }
  :: d_step { HAS(overfull, 0) && len(up) < ROOM -> drain(0) }
  :: d_step { HAS(overfull, 1) && len(up) < ROOM -> drain(1) }
  :: d_step { skip; calmDown() } -> break
  od
}
