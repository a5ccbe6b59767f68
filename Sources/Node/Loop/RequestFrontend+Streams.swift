import Edge
import FCMAPI
import HTTPMessages
import Model
import NodeCore
import Partitions
import Routing

extension RequestFrontend: LoopHost {
    var monotonic: MonotonicTime { Clock.monotonic() }
    var authority: MonotonicTime { loop.shared.authority }
    func pressure(ofLoop number: Int) -> Pressure { loop.mailboxes[number].pressure }
    func pressure(ofPeer processID: ProcessID) -> Pressure { loop.peers?.pressure(of: processID) ?? .none }
    func withGoneTally<Result: Sendable>(_ body: (inout GoneTally) -> Result) -> Result {
        loop.shared.goneTally.withLock { body(&$0) }
    }

    func event(_ body: [UInt8], position: Position, history: History) -> StreamChunk {
        StreamChunk(
            EventID(position: position, history: UInt16(truncatingIfNeeded: history.rawValue)), body)
    }

    func deletedMessages(position: Position, history: History) -> StreamChunk {
        StreamChunk(
            EventID(position: position, history: UInt16(truncatingIfNeeded: history.rawValue)), nil)
    }

    func write(_ chunk: StreamChunk, to stream: UInt64) -> Bool {
        let isWritten = responders[stream]?.write(chunk.lines) ?? userAgents.deliver(chunk, to: stream)
        if isWritten { written += 1 } else { refused += 1 }
        return isWritten
    }

    /// Adds what changed since the last turn to the node's counters.
    func count() {
        if responders.count != countedStreams {
            loop.shared.counters.streams.add(responders.count - countedStreams, ordering: .relaxed)
            countedStreams = responders.count
        }
        if userAgents.count != countedAgents {
            loop.shared.counters.userAgents.open.add(userAgents.count - countedAgents, ordering: .relaxed)
            countedAgents = userAgents.count
        }
        guard written + refused > 0 else { return }
        loop.shared.counters.deliveriesWritten.add(written, ordering: .relaxed)
        loop.shared.counters.deliveriesBehind.add(refused, ordering: .relaxed)
        (written, refused) = (0, 0)
    }

    func open(_ stream: UInt64) {
        guard let responder = responders[stream] else { return userAgents.opened(stream) }
        responder.openStream(status: 200, fields: EventStream.fields)
        _ = responder.write(SharedBytes(API.opening))
    }

    func refuse(_ stream: UInt64, _ refusal: Refusal) {
        guard let responder = responders[stream] else { return userAgents.refused(stream, refusal) }
        // The stream was open already, and the next owner refuses it.
        if responder.hasBegun { return endForReconnect(stream) }
        responders[stream] = nil
        responder.respond(answer(refusal, to: responder))
    }

    private func answer(_ refusal: Refusal, to responder: Responder) -> HTTPResponse {
        api.refuseStream(
            refusal, isEventSource: StreamOwner(number: responder.userNote).isEventSource)
    }

    func endReplaced(_ stream: UInt64) {
        userAgents.replaced(stream)
        end(stream, EventStream.ending("replaced"))
    }
    func endUnregistered(_ stream: UInt64) {
        userAgents.ended(stream, code: PushSession.Code.restart)
        end(stream, EventStream.ending("unregistered"), refusal: .unregistered)
    }
    func endForReconnect(_ stream: UInt64) {
        userAgents.ended(stream, code: PushSession.Code.restart)
        end(
            stream,
            EventStream.ending(
                "reconnect", retryMilliseconds: 500 + Int(random.next(upperBound: UInt64(2000)))))
    }

    /// `refusal` is the answer to a stream that has not begun.
    private func end(
        _ stream: UInt64, _ last: [UInt8],
        refusal: Refusal = .unavailable("a new owner serves the partition")
    ) {
        guard let responder = responders.removeValue(forKey: stream) else { return }
        if responder.hasBegun {
            _ = responder.write(SharedBytes(last))
            responder.endStream()
        } else {
            responder.respond(answer(refusal, to: responder))
        }
    }
}
