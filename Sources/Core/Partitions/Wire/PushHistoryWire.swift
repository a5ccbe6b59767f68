import Bytes
import Model

// What became of a device's pushes, between nodes.

extension ByteWriter {
    mutating func history(_ history: PushHistory) {
        u8(history.kind.rawValue)
        u8(history.activity.rawValue)
        attempt(history.accepted)
        attempt(history.failed)
    }

    private mutating func attempt(_ attempt: PushHistory.Attempt?) {
        guard let attempt else { return u8(0) }
        u8(attempt.message == nil ? 1 : 2)
        if let id = attempt.message {
            u64(id.time)
            u64(id.random)
        }
        u64(UInt64(bitPattern: attempt.time.milliseconds))
        varint(attempt.tries)
        outcome(attempt.outcome)
    }

    mutating func outcome(_ outcome: PushOutcome) {
        switch outcome {
        case .accepted: u8(1)
        case .gone: u8(2)
        case .refusedContent(let reason): tagged(3, reason)
        // Between nodes these are one: a device's history does not distinguish them.
        case .credentials(let reason), .platformKey(let reason), .unset(let reason): tagged(4, reason)
        case .throttled(let seconds): tagged(5, seconds)
        case .overQuota(let seconds): tagged(6, seconds)
        case .transient(let seconds), .formerEnd(let seconds): tagged(7, seconds)
        case .unsent(let reason): tagged(8, reason)
        case .expired: u8(9)
        case .unexplained(let reason): tagged(10, reason)
        }
    }

    private mutating func tagged(_ tag: UInt8, _ reason: String) {
        u8(tag)
        text(String(reason.prefix(WireLimits.textBytesMax / 4)))
    }

    /// 0 means no time.
    private mutating func tagged(_ tag: UInt8, _ seconds: Int?) {
        u8(tag)
        varint(seconds.map { min(max(0, $0), Int(Int32.max)) + 1 } ?? 0)
    }
}

extension ByteReader {
    mutating func history() throws(DecodeError) -> PushHistory {
        let kind = try transportKind()
        guard let activity = PushHistory.Activity(rawValue: try u8()) else {
            throw fail("an unknown activity of a push")
        }
        return PushHistory(
            kind: kind, activity: activity, accepted: try attempt(), failed: try attempt())
    }

    private mutating func attempt() throws(DecodeError) -> PushHistory.Attempt? {
        var message: MessageID?
        switch try u8() {
        case 0: return nil
        case 1: break
        case 2: message = MessageID(time: try u64(), random: try u64())
        default: throw fail("an unknown attempt of a push")
        }
        let time = try wallTime()
        let tries = try int()
        return PushHistory.Attempt(message: message, time: time, outcome: try outcome(), tries: tries)
    }

    mutating func outcome() throws(DecodeError) -> PushOutcome {
        switch try u8() {
        case 1: return .accepted
        case 2: return .gone
        case 3: return .refusedContent(try text())
        case 4: return .credentials(try text())
        case 5: return .throttled(retryAfterSeconds: try seconds())
        case 6: return .overQuota(retryAfterSeconds: try seconds())
        case 7: return .transient(retryAfterSeconds: try seconds())
        case 8: return .unsent(try text())
        case 9: return .expired
        case 10: return .unexplained(try text())
        default: throw fail("an unknown outcome of a push")
        }
    }

    private mutating func seconds() throws(DecodeError) -> Int? {
        let value = try int()
        return value == 0 ? nil : value - 1
    }
}
