#if canImport(Security) && canImport(Darwin)
    import Foundation
    import Security

    /// The registrations in the keychain, the rest in the app's defaults. The keychain outlives the app:
    /// after a new installation of the app the defaults are empty, and the machine ends the registration of
    /// the former one.
    struct AppleStorage: Storage {
        /// The server and the project: a client of another one has entries of its own.
        var account: String

        private static let service = "tidecast.messaging"
        private var key: String { "tidecast.messaging.\(account)" }

        func load() throws -> (state: ClientState?, registrations: Registrations) {
            var state: ClientState?
            if let data = UserDefaults.standard.data(forKey: key) {
                do {
                    state = try JSONDecoder().decode(ClientState.self, from: data)
                } catch {
                    throw MessagingError(
                        .storage, "The entry \(key) of the defaults cannot be read: \(error)")
                }
            }
            return (state, try loadRegistrations())
        }

        func store(_ state: ClientState, isUrgent: Bool) throws {
            UserDefaults.standard.set(try JSONEncoder().encode(state), forKey: key)
        }

        /// An entry is changed in place, so that a crash leaves the former one or the new one.
        func store(_ registrations: Registrations) throws {
            let value = [kSecValueData as String: try JSONEncoder().encode(registrations)]
            var status = SecItemUpdate(item as CFDictionary, value as CFDictionary)
            if status == errSecItemNotFound {
                var added = item.merging(value) { $1 }
                // A message may come while the device is locked. The entry must not go to another device.
                added[kSecAttrAccessible as String] = kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly
                status = SecItemAdd(added as CFDictionary, nil)
            }
            guard status == errSecSuccess else {
                throw MessagingError(.storage, "The keychain answers \(status).")
            }
        }

        private var item: [String: Any] {
            [
                kSecClass as String: kSecClassGenericPassword,
                kSecAttrService as String: AppleStorage.service, kSecAttrAccount as String: account,
            ]
        }

        private func loadRegistrations() throws -> Registrations {
            var query = item
            query[kSecReturnData as String] = true
            var found: CFTypeRef?
            let status = SecItemCopyMatching(query as CFDictionary, &found)
            if status == errSecItemNotFound { return Registrations() }
            guard status == errSecSuccess, let data = found as? Data else {
                throw MessagingError(.storage, "The keychain answers \(status).")
            }
            return try JSONDecoder().decode(Registrations.self, from: data)
        }
    }
#endif
