import Journal
import Model
import NodeCore

/// Sees the events and the effects of every core in a simulated cluster, for stories. A swarm has none.
class ClusterObserver {
    /// The control side of the process handles an event.
    func handles(_ event: ControlEvent, at process: SimulatedProcess) {}
    func carriesOut(_ effect: ControlEffect, at process: SimulatedProcess) {}
    func carriesOut(_ effect: LoopEffect, at loop: SimulatedLoop) {}
    /// A frame leaves on a connection, or is lost on its way.
    func sends(_ frame: [UInt8], from process: SimulatedProcess, to peer: SimulatedProcess) {}
    func loses(_ frame: [UInt8], from process: SimulatedProcess, to peer: SimulatedProcess) {}
    /// A link between the process and another process broke.
    func breaks(linkTo peer: ProcessID, at process: SimulatedProcess) {}
    /// A record went into a database.
    func stores(_ row: Row, in database: SimulatedDatabase) {}
    /// A chunk of a stream comes to its device.
    func arrives(_ chunk: SimulatedLoop.Chunk, at listener: Listener) {}
}
