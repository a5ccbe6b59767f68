import Model
import Synchronization

/// What a development server does for tests of backends: it lists the messages that it has accepted, and
/// gives the answers that a test asks for. The loops of one process share one emulator, and nothing of it is
/// stored.
public final class Emulator: Sendable {
    /// The newest messages of a project that are kept.
    static let messagesMax = 1000
    /// Sends under way, which are kept as messages once they are accepted. Past the bound the oldest is
    /// forgotten.
    static let askedMax = 1000
    /// Faults of one project that may wait for a send.
    static let faultsMax = 100
    /// Projects with messages or faults.
    static let projectsMax = 1000

    /// A message that was accepted.
    struct Sent: Sendable {
        var id: MessageID
        var time: WallTime
        /// The message as the backend wrote it, in compact JSON.
        var message: [UInt8]
    }
    private struct Asked {
        var project: String
        var sent: Sent
    }
    private struct Kept {
        var messages: [Sent] = []
        var faults: [Fault] = []
    }
    private struct State {
        var asked: [Asked] = []
        var projects: [String: Kept] = [:]
    }
    private let state = Mutex(State())

    public init() {}

    // MARK: Messages

    /// A send was read. `accepted` follows if it is accepted.
    func asked(_ sent: Sent, of project: String) {
        state.withLock { state in
            if state.asked.count >= Emulator.askedMax { state.asked.removeFirst() }
            state.asked.append(Asked(project: project, sent: sent))
        }
    }

    func accepted(_ id: MessageID) {
        state.withLock { state in
            guard let index = state.asked.lastIndex(where: { $0.sent.id == id }) else { return }
            let asked = state.asked.remove(at: index)
            guard var kept = Emulator.kept(of: asked.project, in: state) else { return }
            if kept.messages.count >= Emulator.messagesMax { kept.messages.removeFirst() }
            kept.messages.append(asked.sent)
            state.projects[asked.project] = kept
        }
    }

    /// The project's messages, the oldest first.
    func messages(of project: String) -> [Sent] {
        state.withLock { $0.projects[project]?.messages ?? [] }
    }

    func forgetMessages(of project: String) {
        state.withLock { $0.projects[project]?.messages = [] }
    }

    // MARK: Faults

    /// Returns false where too many faults wait already.
    func add(_ fault: Fault, to project: String) -> Bool {
        state.withLock { state in
            guard var kept = Emulator.kept(of: project, in: state), kept.faults.count < Emulator.faultsMax
            else { return false }
            kept.faults.append(fault)
            state.projects[project] = kept
            return true
        }
    }

    func faults(of project: String) -> [Fault] {
        state.withLock { $0.projects[project]?.faults ?? [] }
    }

    func forgetFaults(of project: String) {
        state.withLock { $0.projects[project]?.faults = [] }
    }

    /// Takes the first fault that concerns a send of the project. The fault counts as given once.
    func takeFault(of project: String, device: [UInt8]?) -> Fault? {
        state.withLock { state in
            guard let faults = state.projects[project]?.faults,
                let index = faults.firstIndex(where: { $0.concerns(device) })
            else { return nil }
            let fault = faults[index]
            if let times = fault.times {
                state.projects[project]?.faults[index].times = times - 1
                if times <= 1 { state.projects[project]?.faults.remove(at: index) }
            }
            return fault
        }
    }

    /// Forgets all that is kept of the project.
    func forget(_ project: String) {
        state.withLock { state in
            state.projects[project] = nil
            state.asked.removeAll { $0.project == project }
        }
    }

    /// `nil` for another project where there are too many projects already.
    private static func kept(of project: String, in state: State) -> Kept? {
        state.projects[project] ?? (state.projects.count < projectsMax ? Kept() : nil)
    }
}
