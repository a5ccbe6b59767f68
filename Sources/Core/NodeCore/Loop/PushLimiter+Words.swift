import Model
import Partitions

// Answers of push services that a device is gone (rule: one-word-ends-nothing). One wrong setting, or one
// wrong answer of a service, makes a service answer so for every device.

/// What a limiter knows of an origin's answers that devices are gone.
struct DeviceWords {
    /// Names this knowledge: a witness of another era counts nothing.
    var era: UInt64
    /// Devices in a row of which the service has said that they are gone, with nothing taken between.
    private(set) var inRow = 0
    /// The newest answers: whether each was such an answer.
    private var newest: [Bool] = []

    init(era: UInt64) { self.era = era }

    var isEmpty: Bool { newest.isEmpty }
    var areFew: Bool { newest.count { $0 } * 2 <= newest.count }
    /// At most one device of the newest.
    var areOfOne: Bool { inRow <= 1 && newest.count { $0 } <= 1 }

    mutating func accepted(among most: Int) {
        inRow = 0
        note(false, among: most)
    }

    /// The first word about a device.
    mutating func said(among most: Int) {
        inRow += 1
        note(true, among: most)
    }

    private mutating func note(_ isWord: Bool, among most: Int) {
        newest.append(isWord)
        if newest.count > max(1, most) { newest.removeFirst() }
    }
}

extension PushLimiter {
    mutating func freshState() -> State { State(words: freshWords()) }

    mutating func freshWords() -> DeviceWords {
        lastEra += 1
        return DeviceWords(era: lastEra)
    }

    /// The service answers that a device is gone. This is believed if the service has answered so before, has
    /// taken another message since, its last news of another device was good, and it answers so for few
    /// devices. Otherwise the message is held, and many such devices in a row close the origin.
    mutating func weigh(
        _ known: UnderWay, _ state: inout State, now: MonotonicTime, into effects: inout [Effect]
    ) -> PushReport.Result {
        #if DEBUG
            if planted.contains(.believeWords) { return .gone }
        #endif
        let former = known.job.witness.flatMap { $0.era == state.words.era ? $0 : nil }
        let isProven = state.provenAt.map { now.since($0) < bounds.wordsProvenFor } ?? false
        if let former, isProven, state.pausedUntil == nil, state.words.inRow == 0, state.words.areFew,
            let taken = state.provenAt, taken >= former.since.advanced(by: bounds.wordsSettle)
        {
            return .gone
        }
        let witness = former ?? PushWitness(era: state.words.era, since: now)
        // One device that is tried again and again closes nothing.
        if former == nil { state.words.said(among: bounds.wordsAmong) }
        let most = isProven ? bounds.wordsMax : bounds.failuresMax
        if state.pausedUntil != nil || state.words.inRow >= most {
            let paused = state.pausedUntil
            state.failures = max(state.failures, bounds.failuresMax - 1)
            fail(
                &state, now: now, least: bounds.pauseMin,
                most: isProven ? bounds.wordsPauseMax : bounds.pauseMax, asked: .zero)
            if state.pausedUntil != paused { effects.append(.doubted(known.origin)) }
        }
        let own = bounds.wordRetryMin.doubled(times: min(known.job.tries, 32))
        return .doubted(
            after: jittered(min(own, bounds.wordRetryMax)), witness, isAlone: state.words.areOfOne)
    }

    /// Whether an answer that does not explain itself is a refusal of this message: such answers have come
    /// several times, and the service has taken another message since the last try. Or they have come for
    /// about a day, and the device's other messages wait.
    func isRefusal(of job: PushJob, at state: State, now: MonotonicTime) -> Bool {
        #if DEBUG
            if planted.contains(.refuseSoon) { return state.provenAt != nil }
        #endif
        guard job.unexplained >= bounds.unexplainedMin else { return false }
        if job.unexplained >= bounds.unexplainedMax { return true }
        let first = bounds.retryMin(job.transport.kind)
        // The message was last tried at least so long ago.
        let pause = min(first.doubled(times: min(job.tries - 1, 32)), bounds.pauseMax)
        return state.provenAt.map { now.since($0) < pause } ?? false
    }
}
