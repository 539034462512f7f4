// <form data-choose>: sent as soon as something in it is chosen.
document.addEventListener("change", (event) => event.target.closest("[data-choose]")?.requestSubmit());
