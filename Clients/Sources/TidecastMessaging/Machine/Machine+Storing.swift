// What is stored, and who is notified of it when.

/// What the storage does not have yet.
struct Storing {
    enum Piece: CaseIterable, Sendable { case state, registrations }
    /// A state that was stored lazily need not survive a loss of power.
    enum Need: Int { case nothing, lazily, urgently }

    var state = Need.nothing
    var registrations = Need.nothing
    /// Pieces of whose storing the shell has not yet reported.
    var awaited: Set<Piece> = []
    /// Why a piece is not stored.
    var errors: [Piece: MessagingError] = [:]
    var retry = Backoff()
    /// Callers that get success when all is stored.
    var waiters: [[UInt64]] = []
    /// Callers that get the token when all is stored.
    var tokenWaiters: [UInt64] = []
    /// The token that the app got last.
    var announced: String?

    /// The longest pause before the storage is tried again.
    static let retryMax = Duration.seconds(60)

    var error: MessagingError? { Piece.allCases.compactMap { errors[$0] }.first }

    /// Whether it is known of all pieces whether they are stored.
    var isReported: Bool { state == .nothing && registrations == .nothing && awaited.isEmpty }

    /// What was refused is to be stored again.
    mutating func repeatFailed() {
        if errors[.state] != nil { state = .urgently }
        if errors[.registrations] != nil { registrations = .urgently }
    }
}

extension Machine {
    /// Stores the state before the next call is sent. `isUrgent`: it must survive a loss of power.
    mutating func changed(isUrgent: Bool) {
        storing.state = isUrgent || storing.state == .urgently ? .urgently : .lazily
    }

    /// The registrations have changed, and with them the state.
    mutating func changedRegistrations() {
        storing.registrations = .urgently
        changed(isUrgent: true)
    }

    /// A crash between the two writes must leave a registration that is not the state's: the next start ends
    /// such a one. So a new registration is stored before the state that names it, and the state forgets an
    /// ended one first.
    mutating func store() {
        if registration != nil { storeRegistrations() }
        if storing.state != .nothing {
            emit(.store(state, isUrgent: storing.state == .urgently))
            storing.state = .nothing
            storing.awaited.insert(.state)
        }
        storeRegistrations()
    }

    private mutating func storeRegistrations() {
        guard storing.registrations != .nothing else { return }
        emit(
            .storeRegistrations(
                Registrations(
                    current: registration, ended: ended, replaced: replaced.isEmpty ? nil : replaced)))
        storing.registrations = .nothing
        storing.awaited.insert(.registrations)
    }

    /// The shell has carried out `store` or `storeRegistrations`, with this error.
    mutating func stored(_ piece: Storing.Piece, _ error: MessagingError?, now: Duration) {
        storing.errors[piece] = error
        if error != nil {
            storing.retry.fail(now: now, longest: Storing.retryMax, random: &random)
        } else if storing.error == nil {
            storing.retry.succeed()
        }
        storing.awaited.remove(piece)
        flush()
    }

    /// The callers get success when all is stored, and the storage's error if it is not.
    mutating func completeStored(_ waiting: [UInt64]) {
        if !waiting.isEmpty { storing.waiters.append(waiting) }
    }

    /// Reports what waits for the storage.
    mutating func flush() {
        guard storing.isReported else { return }
        for waiting in storing.waiters { emit(.complete(waiting, storing.error)) }
        storing.waiters = []
        if !storing.tokenWaiters.isEmpty {
            emit(.answerToken(storing.tokenWaiters, storedToken))
            storing.tokenWaiters = []
        }
        announce()
    }

    private var storedToken: Result<String, MessagingError> {
        if let error = storing.error { return .failure(error) }
        return registration.map { .success($0.token) } ?? .failure(.deleted)
    }

    /// Gives the app its token: a new one when it is stored, and the end of one immediately.
    mutating func announce() {
        let token = registration?.token
        let isStored = storing.isReported && storing.error == nil
        guard storing.announced != token, token == nil || isStored else { return }
        storing.announced = token
        emit(.tokenChanged(token))
    }
}
