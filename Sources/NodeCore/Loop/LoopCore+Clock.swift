import Model
import Partitions

// The clock on the wall, as far as a loop and its partitions believe it.

extension LoopCore {
    /// The reading with the wall time that is believed, by which a client's request is dated: dated by a
    /// clock that has leapt, a message would have expired when it comes to its partition.
    public func believed(_ now: Instant) -> Instant {
        Instant(monotonic: now.monotonic, wall: wallClock.read(now))
    }

    func note(_ notice: PartitionNotice, of partition: PartitionID) {
        switch notice {
        case .clockLeapt: doubting.insert(partition)
        case .clockAgrees: doubting.remove(partition)
        case .bodiesGone, .journalRefuses, .journalTakes: break
        }
    }

    private var isClockDoubted: Bool { !wallClock.isTrusted || !doubting.isEmpty }

    /// A gateway that serves no partition doubts the clock as well: what its clients send is dated by it.
    func tellDoubts() {
        guard isClockDoubted != isDoubtTold else { return }
        isDoubtTold = isClockDoubted
        effects.append(.noted(.clockDoubted(isDoubtTold)))
        if isDoubtTold { lookAgain() }
    }

    /// The turn that the timer brings reads the clock: it may be right again, and nothing else may happen.
    func lookAgain() {
        if isDoubtTold { wake(.clock, in: .seconds(5)) }
    }

    /// Another clock agrees with this reading: whoever doubted the clock on the wall believes it again. Where
    /// nobody does, there is nothing to do.
    func vouch(for reading: Instant) {
        guard isClockDoubted else { return }
        wallClock.vouch(for: reading)
        for id in partitions.keys.sorted() {
            partitions[id]?.vouch(for: reading, into: &partitionEffects)
            dirty.insert(id)
            carryOut(of: id)
        }
    }
}
