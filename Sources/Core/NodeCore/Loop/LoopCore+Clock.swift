import Model
import Partitions

// The wall clock, as far as a loop and its partitions believe it.

extension LoopCore {
    /// The reading with the believed wall time, which dates a client's request. A clock that has leapt would
    /// date a message so that it had expired when it comes to its partition.
    public func believed(_ now: Instant) -> Instant {
        Instant(monotonic: now.monotonic, wall: wallClock.read(now))
    }

    /// The time by which credentials begin and end. An unconfirmed clock counts if it is the later one: after
    /// a long rest it may well be right.
    public func timeOfCredentials(_ now: Instant) -> WallTime {
        let time = wallClock.read(now)
        return wallClock.isUnconfirmed ? max(time, now.wall) : time
    }

    /// The other time that may be right, if the wall clock is not believed. An assertion that a client has
    /// just signed is valid by one of the two: a right clock must not refuse it because of a wrong witness.
    public func otherTime(_ now: Instant) -> WallTime? {
        let time = timeOfCredentials(now)
        guard !wallClock.isTrusted else { return nil }
        return time == now.wall ? wallClock.read(now) : now.wall
    }

    func note(_ notice: PartitionNotice, of partition: PartitionID) {
        switch notice {
        case .clockLeapt: doubting.insert(partition)
        case .clockAgrees: doubting.remove(partition)
        case .bodiesGone, .cameLate, .undecided, .dropped, .pushesEnded, .pushedAgain, .goneHeld,
            .deviceEnds, .journalRefuses,
            .journalTakes,
            .markMended, .outboxStalls, .outboxMoves, .conditionStalls, .conditionMoves:
            break
        }
    }

    /// A clock that only an earlier time contradicts does not keep a node from serving: no other clock is
    /// there that is right.
    private var isClockDoubted: Bool {
        !wallClock.isUnconfirmed && (!wallClock.isTrusted || !doubting.isEmpty)
    }

    /// A gateway that serves no partition doubts the clock as well: the clock dates the messages of its
    /// clients.
    func tellDoubts() {
        if wallClock.isUnconfirmed != isUnconfirmedTold {
            isUnconfirmedTold = wallClock.isUnconfirmed
            effects.append(.noted(.clockUnconfirmed(ahead: isUnconfirmedTold ? wallClock.leap : nil)))
            lookAgain()
        }
        guard isClockDoubted != isDoubtTold else { return }
        isDoubtTold = isClockDoubted
        effects.append(.noted(.clockDoubted(isDoubtTold)))
        if isDoubtTold { lookAgain() }
    }

    /// The timer brings a turn, and the turn reads the clock: it may be right again while nothing else
    /// happens.
    func lookAgain() {
        if isDoubtTold || isUnconfirmedTold { wake(.clock, in: .seconds(5)) }
    }

    /// The believed wall time, once an hour, as a witness for the next process: the shell must store it. If
    /// the clock is not believed, that is the former time and what has passed since by the monotonic clock.
    public func takeWitness(_ now: Instant) -> WallTime? {
        let time = wallClock.read(now)
        let isDue = witnessedAt.map { now.monotonic.since($0) >= LoopBounds.witnessPause } ?? true
        guard isDue else { return nil }
        witnessedAt = now.monotonic
        return time
    }

    /// Another clock agrees with this reading: the loop, and each partition that doubts the wall clock,
    /// believes it again, or waits for its confirmation. If none doubts it, there is nothing to do.
    func vouch(for reading: Instant) {
        guard isClockDoubted else { return }
        wallClock.vouch(for: reading)
        for id in partitions.keys.sorted() {
            partitions[id]?.vouch(for: reading, into: &partitionEffects)
            dirty.insert(id)
            carryOut(of: id)
        }
        // What is unconfirmed is not doubted, also not until the partition's next reading.
        if wallClock.isUnconfirmed { doubting = [] }
    }

    /// Another clock does not agree with the node's: one that has leapt is not believed for running evenly.
    func contradictClock() {
        guard isClockDoubted || wallClock.isUnconfirmed else { return }
        wallClock.contradict()
        for id in partitions.keys { partitions[id]?.contradictClock() }
    }
}
