import Model
import Partitions
import Routing

/// A device's connection to a gateway, on which its events come.
final class Listener {
    let device: Int
    /// When the device asked for it.
    let began: UInt64
    var isOpenAtDevice = true
    /// The gateway that took it.
    var process: SimulatedProcess?
    /// Its number there.
    var number: UInt64 = 0
    var lastPosition: UInt64 = 0
    var lastArrival: UInt64 = 0
    init(device: Int, began: UInt64) {
        self.device = device
        self.began = began
    }
}

// The gateway's side of device streams, as `Front`.

extension SimulatedProcess: StreamSink {
    enum Chunk {
        case event([UInt8], Position)
        case deleted(Position)
    }

    func listen(
        _ listener: Listener, _ registration: Registration, _ credential: DeviceProof, resume: EventID?
    ) {
        turn {
            let (stream, command) = streams.attach(registration, by: .device(credential), resume: resume)
            listener.number = stream
            listeners[stream] = listener
            send(.stream(command), to: registration.partition)
        }
    }

    /// The device has hung up.
    func cancelled(_ listener: Listener) {
        guard listeners[listener.number] === listener else { return }
        listeners[listener.number] = nil
        turn {
            if let (partition, command) = streams.detach(listener.number) {
                send(.stream(command), to: partition)
            }
        }
    }

    func event(_ body: [UInt8], position: Position, history: Model.History) -> Chunk {
        .event(body, position)
    }

    func deletedMessages(position: Position, history: Model.History) -> Chunk { .deleted(position) }

    func write(_ chunk: Chunk, to stream: UInt64) -> Bool {
        guard let listener = listeners[stream] else { return false }
        if world.isLoading, world.chance(world.options.fullPerMille) {
            world.after(1_000_000 + world.roll(.milliseconds(50)), .timer, self) {
                self.turn {
                    guard let (partition, command) = self.streams.drained(stream) else { return }
                    self.send(.stream(command), to: partition)
                }
            }
            return false
        }
        let at = max(listener.lastArrival + 1, world.now + 100_000 + world.roll(2_000_000))
        listener.lastArrival = at
        let world = world
        world.after(at - world.now, .client) { world.arrived(chunk, listener) }
        return true
    }

    func open(_ stream: UInt64) {}
    func refuse(_ stream: UInt64, _ refusal: Refusal) { ended(stream) }
    func endReplaced(_ stream: UInt64) { ended(stream) }
    func endUnregistered(_ stream: UInt64) { ended(stream) }
    func endForReconnect(_ stream: UInt64) { ended(stream) }

    private func ended(_ stream: UInt64) {
        guard let listener = listeners.removeValue(forKey: stream) else { return }
        let at = max(listener.lastArrival + 1, world.now + 100_000)
        let world = world
        world.after(at - world.now, .client) { world.hungUp(listener) }
    }

    /// Every stream ends; their devices come back.
    func endStreams() {
        turn {
            for (stream, _) in listeners.sorted(by: { $0.key < $1.key }) {
                if let (partition, command) = streams.detach(stream) { send(.stream(command), to: partition) }
                ended(stream)
            }
        }
    }
}
