import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Runs the machine: gives it events, and carries its effects out.
///
/// Safe to share, because the machine and all other variables are touched on `queue` only.
final class Engine: @unchecked Sendable {
    typealias Completion = @Sendable (MessagingError?) -> Void
    typealias TokenCompletion = @Sendable (Result<String, MessagingError>) -> Void
    typealias EventCompletion = @Sendable (MessagingEvent?) -> Void

    private let queue = DispatchQueue(label: "tidecast.messaging")
    private let wire: Wire
    private let storage: any Storage
    private let transport: any Transport
    private let log: @Sendable (String) -> Void
    private let tokenChanged: @Sendable (String?) -> Void

    private var machine: Machine
    private var lastWaiter: UInt64 = 0
    private var completions: [UInt64: Completion] = [:]
    private var tokenCompletions: [UInt64: TokenCompletion] = [:]
    /// The pull of each listener that waits.
    private var pulls: [UInt64: EventCompletion] = [:]
    private var streams: [UInt64: any TransportStream] = [:]
    private var parsers: [UInt64: EventParser] = [:]
    private var timer: (any DispatchSourceTimer)?
    private var isClosed = false

    /// Throws if the storage cannot be read.
    init(
        wire: Wire, storage: any Storage, transport: any Transport, log: @escaping @Sendable (String) -> Void,
        tokenChanged: @escaping @Sendable (String?) -> Void
    ) throws {
        self.wire = wire
        self.storage = storage
        self.transport = transport
        self.log = log
        self.tokenChanged = tokenChanged
        let stored = try storage.load()
        machine = Machine(
            state: stored.state, registrations: stored.registrations, seed: UInt64.random(in: 0 ... .max))
    }

    func start() { run { $0.start(now: $1) } }

    private static func now() -> Duration {
        .nanoseconds(Int64(clamping: DispatchTime.now().uptimeNanoseconds))
    }

    /// Gives the machine an event, and returns when its effects on storage are carried out: a wish is stored
    /// when the app's call returns. No effect calls back on `queue`, so that this cannot wait for itself.
    private func run<Value>(_ body: (inout Machine, Duration) -> Value) -> Value {
        queue.sync { runHere(body) }
    }

    private func runHere<Value>(_ body: (inout Machine, Duration) -> Value) -> Value {
        let now = Engine.now()
        let value = body(&machine, now)
        var effects = machine.takeEffects()
        // A report of the storage makes further effects.
        while !effects.isEmpty {
            for effect in effects { perform(effect, now: now) }
            effects = machine.takeEffects()
        }
        setTimer(now: now)
        return value
    }

    private func later(_ body: @escaping @Sendable (inout Machine, Duration) -> Void) {
        queue.async { self.runHere(body) }
    }

    private func setTimer(now: Duration) {
        timer?.cancel()
        timer = nil
        guard !isClosed, let next = machine.nextTime(now: now) else { return }
        let source = DispatchSource.makeTimerSource(queue: queue)
        let pause = (next - now).components
        let nanoseconds = pause.seconds * 1_000_000_000 + pause.attoseconds / 1_000_000_000
        source.schedule(deadline: .now() + .nanoseconds(Int(nanoseconds) + 1_000))
        source.setEventHandler { [weak self] in self?.runHere { $0.timer(now: $1) } }
        source.resume()
        timer = source
    }

    // MARK: The app's calls

    func wish(_ topic: String, isWanted: Bool, _ completion: Completion?) {
        run { machine, now in
            machine.wish(topic, isWanted: isWanted, waiter: completion.map(newWaiter), now: now)
        }
    }

    func token(_ completion: @escaping TokenCompletion) {
        run { machine, now in
            lastWaiter += 1
            tokenCompletions[lastWaiter] = completion
            machine.token(lastWaiter, now: now)
        }
    }

    func deleteToken(_ completion: @escaping Completion) {
        run { machine, now in machine.deleteToken(newWaiter(completion), now: now) }
    }

    func deleteData(_ completion: @escaping Completion) {
        run { machine, now in machine.deleteData(newWaiter(completion), now: now) }
    }

    var cachedToken: String? { run { machine, _ in machine.registration?.token } }
    var topics: [String] {
        run { machine, _ in machine.state.wishes.filter(\.value.isWanted).keys.sorted() }
    }
    var address: PushAddress? {
        get { run { machine, _ in machine.state.address } }
        set { run { $0.setAddress(newValue, now: $1) } }
    }
    var isAutoInitEnabled: Bool {
        get { run { machine, _ in machine.isAutoInitEnabled } }
        set { run { $0.setAutoInit(newValue, now: $1) } }
    }

    func wake() { run { $0.wake(now: $1) } }

    func listen() -> UInt64 {
        run { machine, now in
            lastWaiter += 1
            machine.listen(lastWaiter, now: now)
            return lastWaiter
        }
    }

    /// Gives the listener's next event, or `nil` if the listener has ended.
    func pull(_ listener: UInt64, _ completion: @escaping EventCompletion) {
        run { machine, now in
            pulls[listener] = completion
            machine.pull(listener, now: now)
        }
    }

    func stopListening(_ listener: UInt64) { later { $0.stopListening(listener, now: $1) } }

    /// Ends all requests. Callers that still wait get no answer.
    func close() {
        queue.sync {
            isClosed = true
            timer?.cancel()
            timer = nil
            for stream in streams.values { stream.cancel() }
            streams = [:]
        }
        transport.close()
    }

    private func newWaiter(_ completion: @escaping Completion) -> UInt64 {
        lastWaiter += 1
        completions[lastWaiter] = completion
        return lastWaiter
    }
}

extension Engine {
    // MARK: Effects

    private func perform(_ effect: Effect, now: Duration) {
        switch effect {
        case .store(let state, let isUrgent):
            storing(.state, now: now) { try storage.store(state, isUrgent: isUrgent) }
        case .storeRegistrations(let all): storing(.registrations, now: now) { try storage.store(all) }
        case .send(let number, let call): send(number, call)
        case .openStream(let number, let device, let resume): open(number, device, resume: resume)
        case .closeStream(let number):
            parsers[number] = nil
            streams.removeValue(forKey: number)?.cancel()
        case .complete(let waiters, let error):
            for waiter in waiters { completions.removeValue(forKey: waiter)?(error) }
        case .answerToken(let waiters, let result):
            for waiter in waiters { tokenCompletions.removeValue(forKey: waiter)?(result) }
        case .tokenChanged(let token): tokenChanged(token)
        case .deliver(let listener, let event): pulls.removeValue(forKey: listener)?(event)
        case .endListener(let listener): pulls.removeValue(forKey: listener)?(nil)
        }
    }

    private func storing(_ piece: Storing.Piece, now: Duration, _ body: () throws -> Void) {
        do {
            try body()
            machine.stored(piece, nil, now: now)
        } catch {
            let reason = (error as? MessagingError)?.message ?? "\(error)"
            let said = "The client's state is not stored: \(reason)"
            if machine.storing.error == nil { log(said) }
            machine.stored(piece, MessagingError(.storage, said), now: now)
        }
    }

    private func send(_ number: UInt64, _ call: Call) {
        guard !isClosed else { return }
        transport.send(wire.request(for: call)) { [weak self] answer in
            let read: Answer =
                switch answer {
                case .answered(let status, let retryAfter, let body):
                    Wire.answer(to: call, status: status, retryAfter: retryAfter, body: body)
                case .failed(let reason): .unreachable(reason)
                }
            self?.later { $0.answer(number, read, now: $1) }
        }
    }

    private func open(_ number: UInt64, _ device: Registration, resume: String?) {
        guard !isClosed else { return }
        parsers[number] = EventParser()
        streams[number] = transport.open(wire.stream(of: device, resume: resume)) { [weak self] bytes in
            guard let self else { return }
            queue.async { self.heard(number, bytes) }
        }
    }

    private func heard(_ number: UInt64, _ bytes: StreamBytes) {
        switch bytes {
        case .opened: signal(number, .opened)
        case .bytes(let data): read(number, data)
        case .refused(let status, let retryAfter, let body):
            signal(number, .refused(Wire.refusal(status: status, retryAfter: retryAfter, body: body)))
        case .ended(let reason): signal(number, .ended(reason))
        }
    }

    private func read(_ number: UInt64, _ data: Data) {
        guard var parser = parsers.removeValue(forKey: number) else { return }
        signal(number, .heard)
        do {
            let events = try parser.read(data)
            // The machine may close the stream, which then stays without a parser.
            if streams[number] != nil { parsers[number] = parser }
            for event in events { Wire.signal(event).map { signal(number, $0) } }
        } catch {
            signal(number, .ended("An event of the stream is too long."))
        }
    }

    private func signal(_ number: UInt64, _ signal: StreamSignal) {
        runHere { $0.signal(number, signal, now: $1) }
    }
}
