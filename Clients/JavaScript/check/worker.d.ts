// The global scope of a service worker, for the check of messaging-sw.js: the checker knows that of any worker.
declare const clients: Clients;
declare const registration: ServiceWorkerRegistration;
declare function addEventListener<Name extends keyof ServiceWorkerGlobalScopeEventMap>(
  name: Name, listener: (event: ServiceWorkerGlobalScopeEventMap[Name]) => void): void;
interface WorkerGlobalScope {
  tidecast: { onBackgroundMessage(given: any): () => void };
}
