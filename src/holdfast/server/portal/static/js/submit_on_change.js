// <form data-submit-on-change>: submits the form when one of its fields changes.
document.addEventListener("change", (event) => event.target.closest("[data-submit-on-change]")?.requestSubmit());
