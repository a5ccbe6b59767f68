import HTTPMessages
import Model
import NIOCore

// The turns of a loop: which of the waiting requests the loop begins next, and when.

/// A connection that the loop can leave unread for a while.
protocol PausableConnection: AnyObject {
    func resume()
}

/// When the loop serves its waiting requests again.
enum NextTurn {
    case none
    case soon
    /// When the first held line with a request may go on.
    case later
}

extension EdgeLoop {
    /// The time between two turns. NIO reads no socket while a task is due immediately, so the next turn is a
    /// timer and leaves time for reading.
    private static let pause: TimeSpan = .microseconds(10)
    /// If a timer fires later than this, other tasks may have kept the loop from reading sockets.
    private static let lateness: TimeSpan = .microseconds(50)
    /// Paused connections of one share that the loop reads again after one turn.
    private static let resumedAtOnce = 4

    private var now: MonotonicTime { MonotonicTime(nanoseconds: NIODeadline.now().uptimeNanoseconds) }

    /// The request is whole. Handles it immediately if no request waits and the turn has room; otherwise the
    /// request waits for its turn. Returns the request's share if too much of that share waits: the caller
    /// must then stop reading the connection.
    ///
    /// `bodyBytes`: the bytes that the edge has read. `unpacking`: see `unpacking(of:)`.
    func received(_ responder: Responder, bodyBytes: Int, unpacking: Int) -> UInt64? {
        let cost = queue.cost(bodyBytes: bodyBytes + unpacking)
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
            counters.fairness.add(queue, &reportedCounts)
            responder.respond(EdgeAnswer.noTurn(for: request, waited: false))
            return share
        }
        if serving != .soon, queue.isReady {
            plan(.soon)
            let number = turnsPlanned
            eventLoop.assumeIsolated().execute { self.serve(number) }
        } else if serving == .none {
            scheduleServing()
        }
        if case .waitsAndIsFull = added { return share }
        return nil
    }

    /// The work of unpacking a whole request's body, in bytes that a turn counts; 0 for a body without a
    /// content coding. The content may be as long as the path allows, and unpacking it takes about three
    /// times as long as parsing it.
    func unpacking(of request: HTTPRequest) -> Int {
        guard let coding = request.fields["content-encoding"], !request.body.isEmpty,
            !coding.elementsEqual("identity".utf8)
        else { return 0 }
        return handler.contentBytesMax(of: request) * EdgeLoop.unpackingFactor
    }
    private static let unpackingFactor = 4

    /// Plans another turn. Only the last plan counts.
    private func plan(_ next: NextTurn) {
        serving = next
        turnsPlanned += 1
    }

    /// The handler refuses a request of the share for a quota, in the request's turn or later.
    func noteRefused(_ share: UInt64, bodyBytes: Int) {
        queue.noteRefused(share, bodyBytes: bodyBytes, now: now)
    }

    /// The loop reads `connection` again when less of the share waits.
    func notePaused(_ connection: any PausableConnection, _ share: UInt64) {
        paused[share, default: []].append(connection)
        counters.fairness.pauses.add(1, ordering: .relaxed)
    }

    /// One turn: begins waiting requests until the turn's bound. Does nothing if a later plan counts.
    private func serve(_ plan: UInt64) {
        guard plan == turnsPlanned else { return }
        let now = now
        queue.beginTurn(now: now)
        while let served = queue.next(now: now) {
            counters.fairness.note(served.turns)
            // The connection may have ended while the request waited.
            guard served.item.isOpen else { continue }
            let waited = now.since(served.since)
            served.item.waited = waited
            if waited > queue.bounds.wait {
                let request = served.item.transport?.request(of: served.item)
                served.item.respond(EdgeAnswer.noTurn(for: request, waited: true))
            } else {
                served.item.transport?.serve(served.item)
            }
        }
        resume()
        counters.fairness.add(queue, &reportedCounts)
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
            after(EdgeLoop.pause, turnsPlanned, isSecond: false)
        } else if let until = queue.heldUntil {
            plan(.later)
            after(max(until.since(now), EdgeLoop.pause), turnsPlanned, isSecond: true)
        } else {
            plan(.none)
        }
    }

    /// Runs the planned turn after `length`. Tasks that are due immediately run first, and may take so long
    /// that the timer is due before the loop has read a socket. Then the loop waits once more.
    private func after(_ length: TimeSpan, _ plan: UInt64, isSecond: Bool) {
        let late = now.advanced(by: length + EdgeLoop.lateness)
        eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(length)) {
            if !isSecond, self.now > late {
                self.after(EdgeLoop.pause, plan, isSecond: true)
            } else {
                self.serve(plan)
            }
        }
    }
}
