import HTTP2

// What a client does that costs work and asks for nothing.

extension ServerSession {
    /// Counts a frame. Past its bound `receive` returns false.
    func count(_ kind: AbuseGuard.Kind) -> HTTP2Verdict {
        abuse.admits(kind, second: second) ? .goOn : .endSession
    }

    func noteBegun(_ head: HTTP2FrameHead) -> HTTP2Verdict {
        switch head.kind {
        case .headers, .continuation: blockSince = blockSince ?? second
        default: blockSince = nil
        }
        switch head.kind {
        case .ping, .settings, .goAway: return count(.control)
        case .priority: return count(.priority)
        case .windowUpdate: return count(.windowUpdate)
        case .data where head.length == 0 && !head.isEndOfStream: return count(.emptyData)
        default: return .goOn
        }
    }

    /// Counts a frame of a type that this server does not know. Browsers send their priorities in such a
    /// frame.
    func noteUnknown(_ head: HTTP2FrameHead) -> HTTP2Verdict {
        let verdict =
            switch head.kind {
            case .priorityUpdate: count(.priority)
            default: count(.unknown)
            }
        return verdict == .goOn ? .skipFrame : verdict
    }

    func noteSent(_ frame: HTTP2Frame) {
        abuse.noteSent(second: second)
        switch frame.head.kind {
        case .data, .headers: noteUnread(frame)
        case .resetStream: noteReset(frame.errorCode)
        default: break
        }
    }

    /// Counts the reset of a stream, unless it was slow, unread, or refused because answers wait: that is no
    /// fault of the connection's other clients. Refusals are counted when their streams come. libnghttp2
    /// refuses streams by itself too.
    private func noteReset(_ code: HTTP2ErrorCode) {
        if code == .refusedStream, refusalsUnderway > 0 {
            refusalsUnderway -= 1
        } else if code != .noError, code != .cancel, count(.fault) != .goOn {
            isAbused = true
        }
    }

    /// Notes that the answer was complete before the request. The sweep then resets the stream, so that the
    /// client sends no more (RFC 9113 §8.1). Some clients discard an answer with a reset directly behind it.
    private func noteUnread(_ frame: HTTP2Frame) {
        guard frame.head.isEndOfStream, let responder = responder(frame.stream), !responder.isReceived
        else { return }
        responder.isUnread = true
    }
}
