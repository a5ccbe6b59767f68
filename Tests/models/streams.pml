/* Streams (rule: durable-acknowledgements, numbered-pushes, catch-up-before-live): a device listens through gateways to the
 * partition D that has its log, and acknowledges.
 *
 * What is modelled. D appends messages for one device, at positions 1, 2, ...; a first owner is succeeded by a second at any
 * moment, and goes on as a sleeper that does not know. The device opens one connection after the other, each at the other gateway,
 * with `Last-Event-ID` or without, and acknowledges what it has received; the gateway notices later, or never, that an old one is
 * dead. An owner knows one stream of the device. To each gateway it has an ordered link, which may lose what is in it and is slow
 * without bound, so that frames of both owners come mingled. A gateway hears of the second owner late, and attaches its streams to
 * the owner that it knows. An owner sends a stream all that is not acknowledged, then what comes; the gateway leaves out what it
 * has written. From any state the world may calm down: nothing is lost any more and everybody hears of the owner; then a
 * connection that is open must have got all that is in the log.
 *
 * What is abstracted away. One device, so positions are dense and a push is one frame. That a frame's number does not follow the
 * one before is a mark (`gap`) on the first frame after what was lost; a silent link says its newest number at last, so that a
 * loss at its end is seen too. What a gateway sent to an owner is not lost: the connection is the gateway's own, and it would know.
 * An acknowledgement is heard at once, or was not sent. The record in flight holds one message and the acknowledgements since the
 * last. A gateway keeps exactly what each stream has written.
 *
 * What is not covered. Bounds: frames that are not confirmed, messages that wait, a stream that is full (it falls behind like one
 * after a gap). Collapse keys and expiry. Other devices, and so what a gateway infers of one stream from pushes to others. Lost
 * ends (outbox.pml). More than one takeover. A device that acknowledges on one connection while it opens another.
 *
 * Rules taken out by -D: GAP (a gap in the numbers makes the gateway's streams fall behind), ABOVE_LAST (a stream writes only
 * positions above its last), LOWER_EPOCH (frames of a former owner are ignored once a newer one is known), HIGHEST_STREAM (of two
 * streams that are attached again the one with the higher number wins), REATTACH (a gateway attaches its streams to a new owner),
 * CATCH_UP (a stream is live only when it was sent what waited), ACK_DURABLE (an acknowledgement is answered when it is durable),
 * PUSH_DURABLE (a message is pushed when it is durable), CONFIRM_EPOCH (an owner that attaches a stream has seen, since it was
 * asked, that it still is the owner), RESUME_KEPT (what a stream resumed from counts as written, also for a new owner).
 */
#define MESSAGES 2
#define CONNECTIONS 2
#define LOSSES 1
#define LINK(owner, gateway) (2 * (owner) + (gateway))
#define GATEWAY(connection) (((connection) + 1) % 2)
#define MAX(a, b) ((a) > (b) -> (a) : (b))

mtype = { attached, events, push, replaced };

/* D's journal */
byte logged = 0;
byte acknowledged = 0;

/* Its owners 0 and 1, in memory */
byte owner = 0;
byte inLog[2];             /* with what is in flight */
byte isDurable[2];         /* of that, what is known to be durable */
byte cursor[2];
byte stream[2];            /* the connection that is attached; 0 for none */
byte streamNumber[2];
bool isReading[2];
bool isLive[2];

/* Gateways 0 and 1 */
byte known[2];             /* the owner */
byte state[CONNECTIONS + 1];
#define NONE 0
#define BEHIND 1
#define LIVE 2
bool mustAttach[CONNECTIONS + 1];
byte written[CONNECTIONS + 1];
byte number[CONNECTIONS + 1];

/* Links from owners to gateways, and back */
chan down[4] = [3] of { mtype, byte, byte, byte };
bool gap[4];
chan up[4] = [1] of { byte, byte, byte };
byte losses = 0;

/* The device */
byte now = 0;              /* its connection */
byte got = 0;              /* the newest position that came on it, or that it resumed from */
byte resumed = 0;          /* what it resumed from, until that was said to an owner */
byte seen = 0;             /* on any */
byte sent = 0;             /* the newest position that it has acknowledged, answered or not */
byte bygone = 0;           /* of that, what was answered when it opened the connection */
#ifndef ACK_DURABLE
#define ANSWERED acknowledged
#else
#define ANSWERED MAX(cursor[0], cursor[1])
#endif

hidden byte o, g, c, n, p, q, r;

/* A position goes out on a connection. */
inline write(connection, position) {
  if
  :: connection == now ->
     written[connection] = position;
     printf("the device gets %d on connection %d\n", position, connection);
     assert(position <= logged);                         /* nothing that may never have been */
     assert(position > got);                             /* in order, each once */
     assert(position <= MAX(got, sent) + 1);             /* nothing is skipped */
     assert(position > bygone);                          /* nothing again that was acknowledged */
     got = position;
     seen = (now < CONNECTIONS -> MAX(seen, position) : 0)
  :: else -> skip
  fi
}

inline forget(connection) {
  state[connection] = NONE; mustAttach[connection] = false; written[connection] = 0; number[connection] = 0
}

/* Streams of a gateway read the log again from what they wrote last. */
inline fallBehind(gateway) {
  r = 1;
  do
  :: r <= CONNECTIONS ->
     if
     :: GATEWAY(r) == gateway && state[r] != NONE -> state[r] = BEHIND; mustAttach[r] = true
     :: else -> skip
     fi;
     r++
  :: else -> break
  od;
  r = 0
}

#ifndef LOWER_EPOCH
#define IS_HEARD (o >= known[g])
#else
#define IS_HEARD true
#endif
#ifndef ABOVE_LAST
#define PASSES(position, connection) (position > written[connection])
#else
#define PASSES(position, connection) true
#endif

/* A frame of owner `o` to gateway `g`. What will be ignored need not be kept. */
#ifndef LOWER_EPOCH
#define SAY(g, frame) if :: known[g] <= o -> down[LINK(o, g)] ! frame :: else -> skip fi
#else
#define SAY(g, frame) down[LINK(o, g)] ! frame
#endif

/* The next number on the link is not the one that follows. */
#ifndef GAP
#define SEE_GAP if :: gap[LINK(o, g)] && known[g] == o -> fallBehind(g) :: else -> skip fi; gap[LINK(o, g)] = false
#else
#define SEE_GAP gap[LINK(o, g)] = false
#endif

/* A frame of owner `o` comes to gateway `g`. */
inline receive() {
  SEE_GAP;
  n = LINK(o, g);
  if
  :: down[n] ? attached(c, p, q) ->
     if
     :: IS_HEARD && state[c] != NONE -> number[c] = p
     :: else -> skip
     fi
  :: down[n] ? replaced(c, p, q) ->
     if
     :: IS_HEARD && state[c] != NONE ->
        printf("gateway %d: connection %d is replaced\n", g, c);
        forget(c)
     :: else -> skip
     fi
  :: down[n] ? events(c, p, q) ->
     if
     :: IS_HEARD && state[c] != NONE ->
        printf("gateway %d: events %d to %d for connection %d\n", g, p, q, c);
        do
        :: p <= q ->
#ifndef ABOVE_LAST
           if
           :: p > written[c] -> write(c, p)
           :: else -> skip
           fi;
#else
           write(c, p);
#endif
           p++
        :: else -> break
        od;
        state[c] = (mustAttach[c] -> BEHIND : LIVE)
     :: else -> skip
     fi
  :: down[n] ? push(p, c, q) ->
     if
     :: IS_HEARD ->
        printf("gateway %d: push %d\n", g, p);
        c = 1;
        do
        :: c <= CONNECTIONS ->
           if
           :: GATEWAY(c) == g && state[c] == LIVE && PASSES(p, c) -> write(c, p)
           :: else -> skip
           fi;
           c++
        :: else -> break
        od
     :: else -> skip
     fi
  fi
}
/* A gateway hears of the second owner. */
inline learn() {
  printf("gateway %d knows the second owner\n", g);
  known[g] = 1;
#ifndef LOWER_EPOCH
  do
  :: len(down[g]) > 0 -> down[g] ? _, _, _, _
  :: else -> break
  od;
  gap[g] = false;
#endif
#ifndef REATTACH
  fallBehind(g)
#endif
}

/* A gateway attaches a connection to the owner that it knows. */
inline attach() {
  g = GATEWAY(c);
  n = LINK(known[g], g);
  printf("gateway %d attaches connection %d, number %d, to owner %d\n", g, c, number[c], known[g]);
  mustAttach[c] = false;
  up[n] ! c, number[c], (c == now -> resumed : 0);
  resumed = (c == now -> 0 : resumed)
}

/* Owner `o` hears of it. It keeps silent when it is not sure that it is the owner. */
inline attachAtOwner() {
  up[LINK(o, g)] ? c, n, p;
  if
#ifndef CONFIRM_EPOCH
  :: o != owner -> skip
#endif
#ifndef HIGHEST_STREAM
  :: n != 0 && n < streamNumber[o] ->
     SAY(g, replaced(c, 0, 0))
#endif
  :: else ->
     assert(n == 0 || n >= streamNumber[o]);             /* a newer stream does not end for an older one */
     if
     :: stream[o] != 0 && stream[o] != c -> SAY(GATEWAY(stream[o]), replaced(stream[o], 0, 0))
     :: else -> skip
     fi;
     if
     :: n != 0 -> streamNumber[o] = n
     :: n == 0 && stream[o] != c -> streamNumber[o] = MAX(streamNumber[o], 8 * o) + 1
     :: else -> skip
     fi;
     printf("owner %d attaches connection %d as number %d\n", o, c, streamNumber[o]);
     cursor[o] = MAX(cursor[o], p);
     stream[o] = c; isReading[o] = true; isLive[o] = false;
     SAY(g, attached(c, streamNumber[o], 0));
#ifdef CATCH_UP
     isReading[o] = false; isLive[o] = true;
     SAY(g, events(c, 1, 0))
#endif
  fi;
  n = 0; p = 0
}
#define HAS_ROOM(o, g) (len(down[LINK(o, g)]) < 2)

/* All that is not acknowledged, and then live, in one link. */
inline catchUp() {
  p = cursor[o] + 1;
#ifndef PUSH_DURABLE
  SAY(GATEWAY(stream[o]), events(stream[o], p, isDurable[o]));
#else
  SAY(GATEWAY(stream[o]), events(stream[o], p, inLog[o]));
#endif
  isReading[o] = false; isLive[o] = true
}

inline pushNewest() {
  if
  :: isLive[o] -> SAY(GATEWAY(stream[o]), push(inLog[o], 0, 0))
  :: else -> skip
  fi
}

inline send() {
  o = owner;
  inLog[o]++;
  printf("owner %d writes message %d\n", o, inLog[o]);
#ifdef PUSH_DURABLE
  pushNewest()
#endif
}

#define IS_IN_FLIGHT (inLog[owner] > logged || cursor[owner] != acknowledged)

inline becomeDurable() {
  o = owner;
  printf("owner %d: %d messages, acknowledged up to %d, are durable\n", o, inLog[o], cursor[o]);
  acknowledged = cursor[o];
  if
  :: inLog[o] > logged ->
     logged = inLog[o]; isDurable[o] = logged;
#ifndef PUSH_DURABLE
     pushNewest()
#endif
  :: else -> skip
  fi
}

inline acknowledge() {
  printf("the device acknowledges %d to owner %d\n", got, owner);
  sent = got; cursor[owner] = got
}

inline lose(link) {
  printf("link %d loses a frame\n", link);
  down[link] ? _, _, _, _;
  gap[link] = true; losses++
}

inline takeOver() {
  printf("a second owner\n");
  owner = 1; inLog[0] = isDurable[0];
  inLog[1] = logged; isDurable[1] = logged; cursor[1] = acknowledged
}

inline open(resume) {
  now++;
  printf("the device opens connection %d after %d\n", now, resume);
  state[now] = BEHIND; mustAttach[now] = true;
  got = resume; resumed = resume; sent = MAX(sent, resume); bygone = ANSWERED;
#ifndef RESUME_KEPT
  written[now] = resume;
#endif
  seen = (now < CONNECTIONS -> seen : 0)
}

/* All that is on its way comes; a silent link says its newest number. */
inline deliver() {
  g = 0;
  do
  :: g < 2 ->
     if
     :: known[g] < owner -> learn()
     :: else -> skip
     fi;
     o = 0;
     do
     :: o < 2 ->
        do
        :: len(down[LINK(o, g)]) > 0 -> receive()
        :: len(down[LINK(o, g)]) == 0 -> break
        od;
        SEE_GAP;
        o++
     :: else -> break
     od;
     g++
  :: else -> break
  od
}

inline calmDown() {
  printf("calm\n");
  losses = 0;
  do
  :: losses < 8 * CONNECTIONS ->
     deliver();
     o = owner;
     c = 1 + losses % CONNECTIONS;
     g = (len(up[LINK(o, 0)]) > 0 -> 0 : 1);
     if
     :: IS_IN_FLIGHT -> becomeDurable()
     :: !IS_IN_FLIGHT && len(up[LINK(o, g)]) > 0 -> attachAtOwner()
     :: !IS_IN_FLIGHT && len(up[LINK(o, g)]) == 0 && mustAttach[c] -> attach()
     :: !IS_IN_FLIGHT && len(up[LINK(o, g)]) == 0 && !mustAttach[c] && isReading[o] -> catchUp()
     :: else -> skip
     fi;
     losses++
  :: else -> break
  od;
  assert(now == 0 || state[now] == NONE || MAX(got, sent) >= logged)
}

/* Which link it is is picked, and what happens is then done, so that it stands in the model once. */
#define RECEIVE(owner, gateway) :: len(down[LINK(owner, gateway)]) > 0 -> pick = LINK(owner, gateway)
#define ATTACH(owner, gateway)  :: len(up[LINK(owner, gateway)]) > 0 && HAS_ROOM(owner, 0) && HAS_ROOM(owner, 1) -> pick = LINK(owner, gateway)
#define LOSE(n) :: d_step { losses < LOSSES && len(down[n]) > 0 -> lose(n) }

active proctype world() {
  byte pick = 0;
  do
  /* Gateways */
  :: d_step { known[0] < owner -> g = 0; learn() }
  :: d_step { known[1] < owner -> g = 1; learn() }
  :: d_step { mustAttach[1] && len(up[LINK(known[0], 0)]) == 0 -> c = 1; attach() }
  :: d_step { mustAttach[2] && len(up[LINK(known[1], 1)]) == 0 -> c = 2; attach() }
  :: d_step { now > 1 && state[1] != NONE -> forget(1) }
#if CONNECTIONS > 2
  :: d_step { mustAttach[3] && len(up[LINK(known[0], 0)]) == 0 -> c = 3; attach() }
  :: d_step { now > 2 && state[2] != NONE -> forget(2) }
#endif
  :: atomic {
       if
       RECEIVE(0, 0) RECEIVE(0, 1) RECEIVE(1, 0) RECEIVE(1, 1)
       fi;
       skip;
       d_step { o = pick / 2; g = pick % 2; pick = 0; receive() }
     }
  LOSE(0) LOSE(1) LOSE(2) LOSE(3)
  /* The device */
  :: d_step { now < CONNECTIONS -> open(0) }
  :: d_step { now < CONNECTIONS && seen > 0 -> open(seen) }
  :: d_step { got > sent -> acknowledge() }
  /* D */
  :: d_step { inLog[owner] == logged && logged < MESSAGES && HAS_ROOM(owner, 0) && HAS_ROOM(owner, 1) -> send() }
  :: d_step { IS_IN_FLIGHT && HAS_ROOM(owner, 0) && HAS_ROOM(owner, 1) -> becomeDurable() }
  :: d_step { owner == 0 -> takeOver() }
  :: atomic {
       if
       ATTACH(0, 0) ATTACH(0, 1) ATTACH(1, 0) ATTACH(1, 1)
       fi;
       skip;
       d_step { o = pick / 2; g = pick % 2; pick = 0; attachAtOwner() }
     }
  :: d_step { isReading[0] && HAS_ROOM(0, GATEWAY(stream[0])) -> o = 0; catchUp() }
  :: d_step { isReading[1] && HAS_ROOM(1, GATEWAY(stream[1])) -> o = 1; catchUp() }
  :: d_step { skip; calmDown() } -> break
  od
}
