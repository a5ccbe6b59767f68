import HTTPMessages
import NIOCore

// Whose request is begun next.

/// A connection that can be left unread for a while.
protocol PausableConnection: AnyObject {
    func resume()
}

/// When a loop's next turn of those who wait is.
enum NextTurn {
    case none
    case soon
    /// When somebody is no longer held.
    case later
}

extension EdgeLoop {
    /// Nanoseconds after which the next turn begins, in which sockets are read: a loop that has something to
    /// do at once reads none.
    private static let pause: UInt64 = 10_000
    /// A turn that begins so much later has not had the loop for itself.
    private static let lateness: UInt64 = 50_000
    /// Connections of a share that are read again in one turn.
    private static let resumedAtOnce = 4

    private var now: UInt64 { NIODeadline.now().uptimeNanoseconds }

    /// A request is whole. Where nobody waits it is handled at once; otherwise it waits for its turn. Returns
    /// the share of which too much waits, if any: its connection is to be read no further.
    func received(_ responder: Responder, bodyBytes: Int) -> UInt64? {
        let cost = queue.cost(bodyBytes: bodyBytes)
        responder.bodyBytes = Int32(clamping: bodyBytes)
        if queue.takesAtOnce(cost) {
            scheduleFlush()
            responder.transport?.serve(responder)
            return nil
        }
        guard let request = responder.transport?.request(of: responder) else { return nil }
        let share = handler.share(of: request)
        let added = queue.add(responder, of: share, cost: cost, now: now)
        if case .refused = added {
            counters.fairness.add(queue, &told)
            responder.respond(EdgeAnswer.tooManyRequests)
            return share
        }
        if serving != .soon, queue.isReady {
            plan(.soon)
            let number = plans
            eventLoop.assumeIsolated().execute { self.serve(number) }
        } else if serving == .none {
            scheduleServing()
        }
        if case .waitsAndIsFull = added { return share }
        return nil
    }

    /// Another turn is planned, in place of the one before.
    private func plan(_ next: NextTurn) {
        serving = next
        plans += 1
    }

    /// A request of the share is refused for a quota, in its turn or later.
    func noteRefused(_ share: UInt64, bodyBytes: Int) {
        queue.noteRefused(share, bodyBytes: bodyBytes, now: now)
    }

    /// `connection` is not read until less of the share waits.
    func notePaused(_ connection: any PausableConnection, _ share: UInt64) {
        paused[share, default: []].append(connection)
        counters.fairness.pauses.add(1, ordering: .relaxed)
    }

    /// One turn of those who wait, unless another was planned in its place.
    private func serve(_ plan: UInt64) {
        guard plan == plans else { return }
        let now = now
        queue.beginTurn(now: now)
        while let served = queue.next(now: now) {
            counters.fairness.note(served.turns)
            // Its connection may have ended meanwhile.
            guard served.item.isOpen else { continue }
            let waited = now - min(now, served.since)
            served.item.waited = waited
            if waited > queue.bounds.wait {
                served.item.respond(EdgeAnswer.waitedTooLong)
            } else {
                served.item.transport?.serve(served.item)
            }
        }
        resume()
        counters.fairness.add(queue, &told)
        scheduleServing()
    }

    private func resume() {
        for share in Array(paused.keys) where queue.hasRoom(share) {
            guard let waiting = paused[share] else { continue }
            for connection in waiting.prefix(EdgeLoop.resumedAtOnce) { connection.resume() }
            let rest = Array(waiting.dropFirst(EdgeLoop.resumedAtOnce))
            paused[share] = rest.isEmpty ? nil : rest
        }
    }

    private func scheduleServing() {
        if queue.isReady || !paused.isEmpty && queue.heldUntil == nil {
            plan(.soon)
            after(EdgeLoop.pause, plans, isSecond: false)
        } else if let until = queue.heldUntil {
            plan(.later)
            after(max(until - min(until, now), EdgeLoop.pause), plans, isSecond: true)
        } else {
            plan(.none)
        }
    }

    /// The turn of a plan. What the loop does at once comes before it, and may take so long that its time is
    /// come before any socket was read: then it is put off once more.
    private func after(_ nanoseconds: UInt64, _ plan: UInt64, isSecond: Bool) {
        let due = now + nanoseconds
        eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: nanoseconds))) {
            if !isSecond, self.now > due + EdgeLoop.lateness {
                self.after(EdgeLoop.pause, plan, isSecond: true)
            } else {
                self.serve(plan)
            }
        }
    }
}
