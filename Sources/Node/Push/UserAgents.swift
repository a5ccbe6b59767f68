import Credentials
import Edge
import FCMAPI
import HTTPMessages
import Model
import Routing

/// A loop's WebSockets of user agents: carries out what their sessions decide.
final class UserAgents {
    // Safe: the loop owns its frontend, the frontend this object, and a loop lives as long as its node.
    private unowned(unsafe) let loop: NodeLoop
    private let api: API
    private final class Connection {
        /// The number in the table, which the responder has as its note.
        let number: UInt64
        let responder: Responder
        let project: Project
        let client: ClientAddress?
        var session: PushSession
        /// The number of the device's stream; 0 before there is one.
        var stream: UInt64 = 0
        /// Operations whose outcomes the session waits for.
        var underWay = 0
        var isGone = false

        init(
            number: UInt64, _ responder: Responder, of project: Project, client: ClientAddress?,
            session: PushSession
        ) {
            self.number = number
            self.responder = responder
            self.project = project
            self.client = client
            self.session = session
        }
    }
    /// By a separate number, which the responder has as its note.
    private var connections: [UInt64: Connection] = [:]
    /// The number of a stream's connection.
    private var byStream: [UInt64: UInt64] = [:]
    private var last: UInt64 = 0
    /// Effects of the core's calls while it was at work. The core takes no operation then.
    private var waiting: [(number: UInt64, effect: PushSession.Effect)] = []

    init(loop: NodeLoop, api: API) {
        self.loop = loop
        self.api = api
    }

    /// User agents that are connected.
    private(set) var count = 0

    // MARK: From clients

    private static let answer = HTTPResponse(
        status: 426,
        fields: [
            ("upgrade", "websocket"), ("sec-websocket-version", "13"),
            ("content-type", "text/plain; charset=utf-8"),
        ], body: Array("Here is a push service for user agents, which connect by WebSocket.\n".utf8))

    func open(_ responder: Responder, of project: Project, client: ClientAddress?) {
        guard responder.openSocket(subprotocol: "push-notification") else {
            return responder.respond(UserAgents.answer)
        }
        last += 1
        responder.userNote = last
        connections[last] = Connection(
            number: last, responder, of: project, client: client, session: api.pushSession(of: project))
        count += 1
    }

    private func connection(of responder: Responder) -> Connection? {
        connections[responder.userNote].flatMap { $0.responder === responder ? $0 : nil }
    }

    func received(_ text: [UInt8], _ responder: Responder) {
        guard let connection = connection(of: responder), !connection.isGone else { return }
        loop.beginTurn()
        var effects: [PushSession.Effect] = []
        if api.mayTell(connection.client, now: loop.now.monotonic) {
            api.receive(text, by: &connection.session, now: loop.now.monotonic, into: &effects)
        } else {
            connection.session.end(PushSession.Code.tryAgainLater, into: &effects)
        }
        carryOut(effects, of: connection)
    }

    /// The connection is gone. False if the responder is no user agent's.
    func cancelled(_ responder: Responder) -> Bool {
        guard let connection = connection(of: responder) else { return false }
        guard !connection.isGone else { return true }
        connection.isGone = true
        count -= 1
        loop.beginTurn()
        var effects: [PushSession.Effect] = []
        connection.session.lose(into: &effects)
        endStream(of: connection)
        carryOut(effects, of: connection)
        return true
    }

    private func endStream(of connection: Connection) {
        guard connection.stream > 0 else { return }
        byStream[connection.stream] = nil
        loop.detach(connection.stream)
        connection.stream = 0
    }

    // MARK: Effects

    private func carryOut(_ effects: [PushSession.Effect], of connection: Connection) {
        for effect in effects {
            switch effect {
            case .send(let text): send(text, to: connection)
            case .attach(let device, let proof):
                guard !connection.isGone else { continue }
                connection.stream = loop.attach(device, by: .device(proof), resume: nil)
                byStream[connection.stream] = connection.number
                connection.responder.userTag = connection.stream
            case .operation(let operation, let work):
                connection.underWay += 1
                perform(operation, work, of: connection)
            case .close(let code):
                endStream(of: connection)
                connection.responder.endSocket(code: code)
            case .drained: loop.drained(connection.stream)
            case .note(let note): loop.shared.counters.userAgents.note(note)
            }
        }
        forgetIfDone(connection)
    }

    /// A user agent that does not read the answers to its own requests is ended.
    private func send(_ text: [UInt8], to connection: Connection) {
        guard !connection.isGone, !connection.responder.write(SharedBytes(text)) else { return }
        endStream(of: connection)
        var effects: [PushSession.Effect] = []
        connection.session.end(PushSession.Code.tryAgainLater, into: &effects)
        carryOut(effects, of: connection)
    }

    private func forgetIfDone(_ connection: Connection) {
        if connection.isGone, connection.underWay == 0 { connections[connection.number] = nil }
    }

    /// Registrations and changes are bounded by the client's address, as those of apps are.
    private func perform(
        _ operation: Operation, _ work: PushSession.Work, of connection: Connection
    ) {
        if let refusal = api.refusal(of: work, by: connection.client, now: loop.now.monotonic) {
            return finish(connection.number, work, by: .refused(.quota(refusal)))
        }
        let form = api.form(ofSession: connection.number, work, of: connection.project)
        loop.frontend.submit(operation, form, for: connection.responder)
    }

    func finish(_ number: UInt64, _ work: PushSession.Work, by outcome: Outcome) {
        guard let connection = connections[number] else { return }
        connection.underWay -= 1
        change(connection) { $0.finish(work, outcome, into: &$1) }
    }

    private func change(
        _ connection: Connection,
        _ body: (inout PushSession, inout [PushSession.Effect]) -> Void
    ) {
        var effects: [PushSession.Effect] = []
        body(&connection.session, &effects)
        carryOut(effects, of: connection)
    }

    // MARK: From the core

    /// The core reports something of a stream, in the middle of its own work.
    private func hear(
        _ connection: Connection,
        _ body: (inout PushSession, inout [PushSession.Effect]) -> Void
    ) {
        var effects: [PushSession.Effect] = []
        body(&connection.session, &effects)
        for effect in effects {
            if case .send(let text) = effect {
                _ = connection.responder.write(SharedBytes(text))
                continue
            }
            if waiting.isEmpty { loop.eventLoop.assumeIsolated().execute { self.carryOutWaiting() } }
            waiting.append((connection.number, effect))
        }
    }

    private func carryOutWaiting() {
        var taken: [(number: UInt64, effect: PushSession.Effect)] = []
        swap(&taken, &waiting)
        loop.beginTurn()
        for (number, effect) in taken {
            guard let connection = connections[number] else { continue }
            carryOut([effect], of: connection)
        }
    }

    func opened(_ stream: UInt64) {
        guard let number = byStream[stream], let connection = connections[number] else { return }
        hear(connection) { $0.open(into: &$1) }
    }

    func refused(_ stream: UInt64, _ refusal: Refusal) {
        guard let number = byStream.removeValue(forKey: stream), let connection = connections[number] else {
            return
        }
        connection.stream = 0
        hear(connection) { $0.refuse(refusal, into: &$1) }
    }

    /// The core has ended the stream already.
    func ended(_ stream: UInt64, code: UInt16) { end(stream) { $0.end(code, into: &$1) } }

    /// The same, because the device has another stream.
    func replaced(_ stream: UInt64) { end(stream) { $0.replace(into: &$1) } }

    private func end(_ stream: UInt64, _ body: (inout PushSession, inout [PushSession.Effect]) -> Void) {
        guard let number = byStream.removeValue(forKey: stream), let connection = connections[number] else {
            return
        }
        connection.stream = 0
        hear(connection, body)
    }

    func deliver(_ chunk: StreamChunk, to stream: UInt64) -> Bool {
        guard let number = byStream[stream], let connection = connections[number] else { return false }
        // What the session takes, the user agent must get: otherwise no acknowledgement goes on behind it.
        guard connection.responder.hasRoom() else { return false }
        var isTaken = false
        hear(connection) { session, effects in
            isTaken = session.deliver(chunk.body, chunk.id, into: &effects)
        }
        return isTaken
    }

    /// Every 25 s.
    func tick() {
        loop.beginTurn()
        for connection in connections.values where !connection.isGone {
            change(connection) { $0.tick(into: &$1) }
        }
    }

    /// Ends the connections of projects that are no push services any more, and those of devices under
    /// retired registration keys.
    func endStopped(under keys: Set<UInt8>) {
        for connection in connections.values
        where !(api.directory.pushServices[connection.project.number]?.isOn ?? false)
            || connection.session.registrationKey.map({ keys.contains($0) }) ?? false
        {
            change(connection) { $0.end(PushSession.Code.restart, into: &$1) }
        }
    }

    /// The server ends.
    func endAll() {
        for connection in connections.values {
            change(connection) { $0.end(PushSession.Code.goingAway, into: &$1) }
        }
    }
}

/// An event of a device's log for the streams of one loop: created once, and shared.
final class StreamChunk {
    let id: EventID
    /// `nil`: the device has lost messages.
    let body: [UInt8]?
    /// The event in the form of an event stream, created if such a stream gets it.
    lazy var lines = SharedBytes(body.map { API.event($0, id) } ?? API.deletedMessages(id))

    init(_ id: EventID, _ body: [UInt8]?) {
        self.id = id
        self.body = body
    }
}
